"""ONNX graphs with the true architecture of the router's signal models and random weights.

Latency and memory of a dense encoder depend on its graph and shapes, not on what its weights say; so a random model
measures what the trained one would, without a download.
"""
