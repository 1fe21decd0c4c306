"""Hugging Face model folders: import, export with a proof, ONNX."""
