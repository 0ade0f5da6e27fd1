"""Every API that this broker answers, one module each."""
