"""What several tests share and is not a contract."""
