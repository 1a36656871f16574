"""Converges NVIDIA DGX Sparks into LLM servers, and proves what runs."""

__version__ = "0.1.0"
