"""What the command line is made of: its output, its view of a run, and its arguments.

`durable_nb.cli` holds the verbs; a verb says what it does in the words of these modules.
"""
