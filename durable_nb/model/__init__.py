"""The model: effects, outcomes, records and identities. Pure: no input or output."""
