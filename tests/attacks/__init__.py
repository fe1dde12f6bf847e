"""What an attacker, a failing machine or another tenant could do, and what it must not bring."""
