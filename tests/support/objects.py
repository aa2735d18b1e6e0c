"""The stand-in of an object store, on loopback, and credentials for it in the environment."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyarrow import fs


@contextmanager
def bucket() -> Iterator[str]:
    """The URL of a prefix in an empty bucket, as PURSE_STORAGE_URL has it."""
    from moto.server import ThreadedMotoServer  # some seconds, for whoever asks

    names = {
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "a secret of tests",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        server = ThreadedMotoServer(port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            where = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1"
            files, _ = fs.FileSystem.from_uri(f"s3://bucket?{where}&allow_bucket_creation=true")
            files.create_dir("bucket")
            yield f"s3://bucket/data?{where}"
        finally:
            server.stop()
