"""The demo: a refund agent whose kernel is killed three times, against a real shop and model.

The shop and the model server are processes of their own; the toolkit reaches them over HTTP only.
Start at `runner.py` for the story and at `notebooks/refund_agent.ipynb` for the agent.
"""
