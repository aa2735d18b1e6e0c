"""A Parquet file in a bucket becomes a dataset in partitions, by a command to a real server, and a job runs on it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, fs

from purse import Client, ProblemError
from tests.support import cli, objects
from tests.support.server import Server
from tests.support.service import JOB, SPEC, STEWARD, people

pytestmark = pytest.mark.slow


def test_a_file_in_a_bucket_is_imported_into_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, spec = people(1000), tmp_path / "spec.json"
    spec.write_text(json.dumps(SPEC | {"name": "visits", "storage": "partitions"}))
    with objects.bucket() as url:
        incoming = url.replace("/data", "/incoming")
        files, root = fs.FileSystem.from_uri(incoming)
        with files.open_output_stream(f"{root}/2026/visits.parquet") as target:
            pq.write_table(csv.read_csv(pa.py_buffer(file)), target, row_group_size=300)
        server = Server(tmp_path / "home", workers=1, storage_url=url, import_url=incoming, max_upload_bytes=100)
        server.start()
        try:
            monkeypatch.setenv("PURSE_URL", str(server.client.base_url))
            monkeypatch.setenv("PURSE_TOKEN", STEWARD)
            code, out, err = cli.purse(capsys, "dataset", "import", "2026/visits.parquet", "--spec", str(spec))
            assert (code, err) == (0, ""), err
            assert "1,000" in out
            code, _, err = cli.purse(capsys, "dataset", "import", "../data/visits.parquet", "--spec", str(spec))
            assert (code, err.startswith("purse: invalid_request")) == (1, True)
            with Client(str(server.client.base_url), STEWARD) as client:
                with pytest.raises(ProblemError, match="same values"):
                    client.datasets.import_file("2026/visits.parquet", spec=SPEC | {"name": "again"})
                model = client.jobs.submit(**JOB | {"dataset": "visits", "method": {"name": "dp_gd"}}).result()
                assert model.features
            assert "file_import_requested 2026/visits.parquet by idn_" in server.log(None)
        finally:
            server.stop_or_kill()
