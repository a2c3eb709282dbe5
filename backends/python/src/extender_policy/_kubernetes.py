"""The models of the Python client of Kubernetes, which is an optional dependency."""

from __future__ import annotations

import json
from typing import Any


def model(raw_json: bytes | None, kind: str) -> Any:
    """The object as a model of this kind; `None` if there is no JSON of it."""
    if raw_json is None:
        return None
    try:
        from kubernetes.client import ApiClient
    except ImportError as error:
        text = "models of Kubernetes need the package kubernetes; install extender-policy[kubernetes], or read raw_json"
        raise ImportError(text) from error
    # The public method wants another kind of response in each version of the client.
    return getattr(ApiClient(), "_ApiClient__deserialize")(json.loads(raw_json), kind)  # noqa: B009
