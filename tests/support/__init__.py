"""What tests that kill processes share: child programs, and a ledger outside of the toolkit."""
