"""The SDK of MinIO, without its client for administration.

Promises: two libraries for cryptography and a parser of C, which only that client uses, are not imported; they cost a
process 3 MB. Who wants them later gets them.
"""

import sys
from types import ModuleType

_ADMINISTRATION = "minio.minioadmin"
_absent = ModuleType(_ADMINISTRATION)
_absent.MinioAdmin = None  # type: ignore[attr-defined]

sys.modules[_ADMINISTRATION] = _absent
try:
    from minio import Minio
    from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
finally:
    del sys.modules[_ADMINISTRATION]

__all__ = ["InvalidResponseError", "Minio", "MinioException", "S3Error", "ServerError"]
