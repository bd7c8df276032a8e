"""A worker host's key of the object store writes below its own prefix, and replaces and deletes nothing."""

from __future__ import annotations

import asyncio
import json
import platform
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import obstore
import pytest
from obstore.exceptions import BaseError, PermissionDeniedError

from tests.warehouse.store.servers import moto
from warehouse.bundles.store import ObjectStore, policy_of_host

URL = "s3://runs/of/the/lab"
OTHERS = "parts/elsewhere/runs/job/run/digest/run.json"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """As the host reaches it; another host's part and a verdict are there."""
    with moto() as port:
        endpoint = f"http://127.0.0.1:{port}"
        keys = {"aws_access_key_id": "of-the-tests", "aws_secret_access_key": "of-the-tests"}
        clients: dict[str, Any] = {
            name: boto3.client(name, endpoint_url=endpoint, region_name="us-east-1", **keys) for name in ("s3", "iam")
        }
        clients["s3"].create_bucket(Bucket="runs")
        for key in (OTHERS, "verdicts/job/one.json"):
            clients["s3"].put_object(Bucket="runs", Key=f"of/the/lab/{key}", Body=b"{}")
        clients["iam"].create_user(UserName="host")
        policy = json.dumps(policy_of_host(URL, platform.node()))
        clients["iam"].put_user_policy(UserName="host", PolicyName="host", PolicyDocument=policy)
        made = clients["iam"].create_access_key(UserName="host")["AccessKey"]
        plain = {"Content-Type": "text/plain"}
        begin = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", b"0", plain)  # noqa: S310 - moto's
        urllib.request.urlopen(begin).close()  # noqa: S310 - from now on it looks at policies
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": made["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"],
        }.items():
            monkeypatch.setenv(name, value)
        yield ObjectStore(URL)


def test_a_host_writes_and_reads_runs_and_nothing_else(store: ObjectStore, tmp_path: Path) -> None:
    (run := tmp_path / "bundles" / "job" / "run").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    manifest_sha256, is_ours = asyncio.run(store.upload(tmp_path / "bundles", "job/run"))
    assert is_ours
    assert store.manifest_sha256("job/run") == manifest_sha256
    assert store.fetch(tmp_path / "elsewhere", "job/run")
    own = f"parts/{platform.node()}/runs/job/run"
    for key in (OTHERS, "verdicts/job/one.json", "removed/runs/job/run.json", "anything"):
        with pytest.raises(PermissionDeniedError):
            obstore.put(store._store, key, b"forged", use_multipart=False)
    (part,) = [item["path"] for page in obstore.list(store._store, own) for item in page]
    for key in (OTHERS, "runs/job/run.json", part, "verdicts/job/one.json"):  # moto allows all of a bucket or nothing
        with pytest.raises(BaseError, match=r"Access ?Denied"):
            obstore.delete(store._store, key)
    with pytest.raises(PermissionDeniedError):
        obstore.get(store._store, "verdicts/job/one.json")
