"""The files that start the service elsewhere: valid by their published schemas, of settings and routes that exist."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli import machines
from app.cli.state import settings_of
from app.http.routing import routes
from app.main import ROUTERS
from app.settings import Settings
from tests.support.cli import purse

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
MANIFESTS: list[dict[str, Any]] = [
    document for file in FILES if file.stem != "kustomization" for document in yaml.safe_load_all(file.read_text())
]
PODS = {
    manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"]
    for manifest in MANIFESTS
    if manifest["kind"] in ("Deployment", "Job")
}
STOPPING = 10  # seconds that requests get to end: app.main
CHANNEL = {"PURSE_SCHEDULER", "PURSE_SCHEDULER_CA", "PURSE_SCHEDULER_CERT", "PURSE_SCHEDULER_KEY"}


def _of(kind: str) -> dict[str, Any]:
    return {manifest["metadata"]["name"]: manifest for manifest in MANIFESTS if manifest["kind"] == kind}


@pytest.mark.slow
def test_the_compose_file_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    from check_jsonschema import main  # like the one below

    with pytest.raises(SystemExit) as exit_info:
        main(["--builtin-schema", "vendor.compose-spec", str(ROOT / "compose.yaml")])
    assert exit_info.value.code == 0, capsys.readouterr().out


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: f"{m['kind']} {m['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.31", "latest"])
def test_each_manifest_is_valid(manifest: dict[str, Any], version: str) -> None:
    import kubernetes_validate  # the import takes two seconds, which would slow down collection

    kubernetes_version = kubernetes_validate.latest_version() if version == "latest" else version
    kubernetes_validate.validate(manifest, kubernetes_version, strict=True)


def test_all_manifests_are_applied() -> None:
    resources = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text())["resources"]
    assert sorted(resources) == [file.name for file in FILES if file.stem != "kustomization"]


@pytest.mark.parametrize("file", [ROOT / "compose.yaml", ROOT / "deploy/make_secrets.py", *FILES], ids=lambda f: f.name)
def test_every_setting_that_is_named_exists(file: Path) -> None:
    ours = {f"PURSE_{name.upper()}" for name in Settings.model_fields} | {"PURSE_SECRETS_DIR", "PURSE_IMAGE"}
    assert set(re.findall(r"PURSE_[A-Z_]+", file.read_text())) <= ours


def test_every_probe_requests_an_existing_route() -> None:
    route_paths = {route.path for route in routes(ROUTERS)}
    text = "".join(file.read_text() for file in FILES)
    probed_paths = re.findall(r"httpGet: \{path: ([^,]+),", text)
    assert len(probed_paths) == 3
    assert set(probed_paths) <= route_paths


def test_a_worker_has_a_certificate_and_the_datasets_and_nothing_more() -> None:
    worker = COMPOSE["services"]["worker"]
    assert set(worker["environment"]) == CHANNEL
    assert set(worker["secrets"]) == {"ca.pem", "worker.pem", "worker-key.pem"}
    assert worker["networks"] == ["engine"]
    assert "engine" not in COMPOSE["services"]["database"]["networks"]
    (home,) = (volume for volume in worker["volumes"] if volume.get("source") == "home")
    assert (home["read_only"], home["volume"]) == (True, {"subpath": "datasets"})
    pod = PODS["worker"]
    (container,) = pod["containers"]
    assert {entry["name"] for entry in container["env"]} == CHANNEL
    assert [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v] == ["worker"]
    (mount,) = (m for m in container["volumeMounts"] if m["name"] == "home")
    assert (mount["subPath"], mount["readOnly"]) == ("datasets", True)


def test_a_worker_reaches_no_database_and_no_server() -> None:
    policies = _of("NetworkPolicy")
    assert policies["nothing"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    labels = {"app": "privy-purse", "part": "worker"}
    selecting = {name for name, policy in policies.items() if _selects(policy["spec"]["podSelector"], labels)}
    assert selecting == {"nothing", "names", "worker"}
    reached = [rule["to"] for rule in policies["worker"]["spec"]["egress"]]
    parts = {peer["podSelector"]["matchLabels"]["part"] for to in reached for peer in to}
    assert parts == {"scheduler", "worker"}


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return exact and all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", ()))


def test_every_container_is_closed() -> None:
    """No root, no way to it, nothing to write to but what is mounted, no token of the cluster."""
    for pod in PODS.values():
        assert pod["automountServiceAccountToken"] is False
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
        for container in pod["containers"]:
            closed = container["securityContext"]
            assert (closed["readOnlyRootFilesystem"], closed["allowPrivilegeEscalation"]) == (True, False)
            assert closed["capabilities"] == {"drop": ["ALL"]}
            assert "limits" in container["resources"]
    for service in COMPOSE["services"].values():
        assert service["user"] in ("10001:10001", "postgres")
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {key for key in service.get("environment", ()) if re.search("TOKEN|PASSWORD$|URL", key)}


def test_each_budget_of_disruption_and_each_service_selects_pods() -> None:
    pods = [
        manifest["spec"]["template"]["metadata"]["labels"]
        for manifest in MANIFESTS
        if "metadata" in manifest.get("spec", {}).get("template", {})
    ]
    for kind, key in (("PodDisruptionBudget", "matchLabels"), ("Service", None)):
        for manifest in _of(kind).values():
            chosen = manifest["spec"]["selector"] if key is None else manifest["spec"]["selector"][key]
            assert chosen in pods


def test_containers_have_time_to_drain_before_they_are_killed() -> None:
    """A server's grace period exceeds the wait before SIGTERM plus the drain; a worker's exceeds its patience."""
    wait = PODS["server"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = Settings.model_fields["drain_seconds"].default + STOPPING
    patience = inspect.signature(machines.worker).parameters["patience"].default
    assert PODS["server"]["terminationGracePeriodSeconds"] > wait + drain
    assert PODS["worker"]["terminationGracePeriodSeconds"] >= patience + 60
    stops = {name: service.get("stop_grace_period") for name, service in COMPOSE["services"].items()}
    assert int(stops["server"].rstrip("s")) > drain
    assert int(stops["worker"].rstrip("s")) >= patience + 60


def test_servers_and_workers_stand_on_several_machines() -> None:
    for manifest in (_of("Deployment")[name] for name in ("server", "worker")):
        (spread,) = manifest["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"] == manifest["spec"]["selector"]


def test_every_command_that_is_started_exists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [service["entrypoint"] for service in COMPOSE["services"].values() if "entrypoint" in service]
    lines += [c["command"] for pod in PODS.values() for c in pod["containers"] if "command" in c]
    assert {" ".join(line[1:3]) for line in lines} == {"server migrate", "server scheduler", "worker run"}
    for line in lines:
        code, help_text, _ = purse(capsys, *line[1:3], "--help")
        assert code == 0, line
        assert all(word in help_text for word in line if word.startswith("--"))


@pytest.mark.slow
def test_the_secrets_are_created_once_and_read_by_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = [sys.executable, str(ROOT / "deploy/make_secrets.py"), str(tmp_path / "secrets"), "db.example"]
    environment = os.environ | {"PATH": f"{Path(_purse()).parent}:{os.environ['PATH']}"}
    subprocess.run(make, check=True, env=environment, capture_output=True)
    secrets = {file.name: file.read_bytes() for file in (tmp_path / "secrets").iterdir()}
    assert {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()} <= secrets.keys()
    assert secrets["PURSE_DATABASE_URL"] == b"postgresql://purse:%s@db.example/purse" % secrets["postgres-password"]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    subprocess.run(make, check=True, env=environment, capture_output=True)
    assert {file.name: file.read_bytes() for file in (tmp_path / "secrets").iterdir()} == secrets
    monkeypatch.setenv("PURSE_SECRETS_DIR", str(tmp_path / "secrets"))
    chosen = settings_of(tmp_path)
    assert chosen.database_url == secrets["PURSE_DATABASE_URL"].decode()
    assert chosen.metrics_token is not None
    assert chosen.metrics_token.get_secret_value() == secrets["PURSE_METRICS_TOKEN"].decode()


def test_without_the_command_no_secret_is_written(tmp_path: Path) -> None:
    make = [sys.executable, str(ROOT / "deploy/make_secrets.py"), str(tmp_path / "secrets")]
    result = subprocess.run(make, check=False, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "not on PATH" in result.stderr
    assert list(tmp_path.iterdir()) == []


def _purse() -> str:
    return str(Path(sys.executable).parent / "purse")


def test_the_dashboards_panels_have_a_place_each() -> None:
    panels = json.loads((ROOT / "deploy/grafana/privy-purse.json").read_text())["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len(panels) == 14
