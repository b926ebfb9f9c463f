"""Applications on Spark, YARN and Kubernetes: started, watched, ended, given back."""

from __future__ import annotations
