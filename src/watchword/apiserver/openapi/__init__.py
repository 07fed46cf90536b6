"""OpenAPI documents of everything served: `kubectl explain`, validation and apply read them."""

from watchword.apiserver.openapi.documents import document, document_v2
from watchword.apiserver.openapi.serving import OpenApi

__all__ = ["OpenApi", "document", "document_v2"]
