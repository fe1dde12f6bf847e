"""What a configuration promises."""
