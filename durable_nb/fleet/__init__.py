"""The supervisor: notebooks executed without a front end, resumed when their kernel dies."""
