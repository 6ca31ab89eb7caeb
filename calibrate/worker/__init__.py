"""The process that measures, inside a provider's runtime. Standard library, numpy and onnxruntime only.

It imports nothing of ours outside this directory, so the directory can be copied into any interpreter. One process
measures one cell: a crash costs one cell, and every load and first run is a true one.
"""
