"""Engines as a system user of their own: they read models, and nothing else of the home."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.settings import Settings
from lab.errors import EngineError, SettingsError
from tests.lab.studies import study
from tests.workers.homes import until
from workers.engine_runtime import process
from workers.engine_runtime.engine_key import new_key
from workers.engine_runtime.engine_user import EngineUser, engine_user, environment_for, let_through, user_caches
from workers.engine_runtime.launch import start_engine

NOBODY = pwd.getpwnam("nobody")
USER = EngineUser("nobody", NOBODY.pw_uid, NOBODY.pw_gid, (NOBODY.pw_gid,))
#: What an engine tries, by the name that it reports.
TRIES = {
    "model": "cat models/target/config.json",
    "configuration": "cat logs/engines/job/engine.yaml",
    "database": "cat app.sqlite",
    "key": "cat secrets.toml",
    "prompts": "cat bundles/job/run.json",
    "list": "ls .",
    "write": "touch models/target/x",
    "cache": 'touch "$HOME/x" && mkdir -p "$TORCHINDUCTOR_CACHE_DIR" "$XDG_CACHE_HOME"',
    "temporary": 'touch "$TMPDIR/x"',
}


@pytest.fixture
def home() -> Iterator[Path]:
    """Where another user may go, if the home lets them; the folders of other tests are closed above it."""
    above = Path(tempfile.mkdtemp(prefix="engines-"))
    above.chmod(0o711)
    made = above / "home"
    for name in ("models/target/config.json", "logs/engines/job/engine.yaml", "bundles/job/run.json"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    for name in ("app.sqlite", "secrets.toml"):
        (made / name).write_text(name)
    for path in (made, *made.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    yield made
    shutil.rmtree(above)


def test_an_engine_of_another_user_reads_only_models_of_the_home(home: Path) -> None:
    """Where these tests are not root's, such a worker is refused instead."""
    if os.geteuid() != 0:
        with pytest.raises(SettingsError, match="only a worker that runs as root"):
            engine_user(Settings(home=home, engine_user="nobody"))
        return
    user = engine_user(Settings(home=home, engine_user="nobody"))
    assert user is not None
    assert (user.uid, user.gid) == (USER.uid, USER.gid)
    environment = environment_for(user, home, os.environ | user_caches(user, home))
    let_through(user, home, home / "models", home / "logs/engines/job", home / "not there")
    tried = "".join(f"({line}) >/dev/null 2>&1 && echo may {name}\n" for name, line in TRIES.items())
    script = f"cd {home}\nid -u\n{tried}echo end\n"
    log = home / "logs" / "engines" / "job.log"
    engine = process.start(("/bin/sh", "-c", script), environment, log, home / "engines", user=user)
    until(lambda: engine.exit_status is not None, "the engine's end")
    engine.stop(0.0)
    said = log.read_text().split("\n")
    assert said == [str(USER.uid), "may model", "may configuration", "may cache", "may temporary", "end", ""]
    assert not engine.temporary.exists()


def test_what_was_open_to_another_group_is_not_open_to_engines(home: Path) -> None:
    if os.geteuid() != 0:
        return
    config = home / "models/target/config.json"
    config.chmod(0o664)
    let_through(USER, home, home / "models")
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert stat.S_IMODE(home.stat().st_mode) == 0o710
    assert stat.S_IMODE((home / "app.sqlite").stat().st_mode) == 0o600


def test_an_engine_of_another_user_is_stopped_like_any(home: Path) -> None:
    if os.geteuid() != 0:
        return
    log = home / "logs" / "engines" / "job.log"
    engine = process.start(("/bin/sleep", "600"), os.environ, log, home / "engines", user=USER)
    until(lambda: len(list(process.marked(engine.mark_file.stem))) == 2, "the engine and its guard")
    engine.stop(grace_s=1.0)
    assert not list(process.marked(engine.mark_file.stem))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"engine_user": "nobody-has-this"}, "there is no user 'nobody-has-this' on this host"),
        ({"engine_user": "root"}, "must not be root"),
        ({"engine_user": "nobody", "home_group": "nogroup"}, "cannot both be set"),
    ],
)
def test_a_user_that_cannot_be_used_is_refused_with_the_reason(
    home: Path, values: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        engine_user(Settings(home=home, **values))  # type: ignore[arg-type]
    assert engine_user(Settings(home=home)) is None


async def test_a_launch_starts_its_engine_as_that_user_with_a_key(home: Path) -> None:
    """This engine only says who it is, and ends."""
    says = "id -u; printenv ENGINE_KEY_OF_DRAFTHOUSE | wc -c"
    engines = home / "engines.toml"
    engines.write_text(f'[vllm]\nkind = "vllm"\ncommand = ["/bin/sh", "-c", "{says}"]\n')
    settings = Settings(home=home, engines_file=engines, engine_user="nobody")
    measured, log = study(target=str(home / "models/target")), home / "logs/engines/job.log"
    said = f"the engine ended with exit status 0; its log ends:\n{USER.uid}\n{len(new_key()) + 1}$"
    with pytest.raises(
        (EngineError, SettingsError), match=said if os.geteuid() == 0 else "only a worker that runs as root"
    ):
        await start_engine(settings, measured, measured.arms[0], log, lambda _command, _process: None)
