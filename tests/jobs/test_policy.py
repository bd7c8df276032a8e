"""A study is data, not a command: what it may set is listed, and everything else is refused with the line to add."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import policy, queue
from jobs.access import accounts
from jobs.access.local import local_actor
from jobs.engines import transformers, vllm
from jobs.policy import author_problems, launch_problems, place_problems, setting_problems
from jobs.presets import all_presets
from jobs.submission import check_study
from lab.access import Role
from lab.errors import SettingsError, StudyError
from lab.study import Study
from lab.study.parsing import study_from_toml
from tests.actors import ADMIN
from tests.workers.homes import Home
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.settings import Settings
from workers.engine_runtime.launch import engine_command

PLAIN: dict[str, Any] = {"name": "plain", "baseline": True}


def refused(home: Home, **arm: Any) -> dict[str, str]:
    """What submission says of a study whose only arm has these."""
    with pytest.raises(StudyError) as error:
        check_study(home.settings, home.study(arms=[PLAIN | arm]), Role.SUBMITTER)
    return dict(error.value.problems)


def write_policy(home: Home, text: str) -> None:
    policy.policy_file(home.settings).write_text(text, encoding="utf-8")


FOUR_LINES = """
name = "four lines"
target = "reference"
workloads = [{category = "code"}]
loads = [{max_concurrency = 1, num_prompts = 1}]
[[arms]]
name = "plain"
[arms.environment]
PYTHONWARNINGS = "all:0:antigravity.x:0:0"
BROWSER = "/bin/sh -c 'id > owned' %s"
"""


def test_four_lines_that_ran_any_command_are_refused_at_submission_and_before_the_engine_starts(home: Home) -> None:
    study = study_from_toml(FOUR_LINES)
    with pytest.raises(StudyError, match="does not let a study use the variable PYTHONWARNINGS"):
        queue.submit(home.settings, study, actor=local_actor())
    with pytest.raises(StudyError, match="does not let a study use the variable BROWSER"):
        engine_command(home.settings, study, study.arms[0], home.folder / "log")


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "PATH", "PYTHONPATH", "HF_ENDPOINT", "DOCKER_HOST", "TRITON_CACHE_DIR", "VLLM_PLUGINS", "CC"]
)
def test_a_variable_that_loads_code_or_sends_keys_elsewhere_is_refused(home: Home, name: str) -> None:
    problems = refused(home, environment={name: "x"})
    assert problems[f"arms[0].environment.{name}"] == (
        f"this lab's policy does not let a study use the variable {name}: an administrator can allow it with the line "
        f'environment = ["{name}"] below [engines.vllm] in {home.settings.home.absolute()}/policy.toml'
    )


@pytest.mark.parametrize(
    ("arm", "field", "words"),
    [
        ({"flags": {"generation-config": "/home/eve"}}, "flags.generation-config", "--generation-config with a path"),
        ({"flags": {"generation-config": "eve/model"}}, "flags.generation-config", "--generation-config with a path"),
        ({"config": {"kv-cache-dtype": {"a": ["~eve"]}}}, "config.kv-cache-dtype.a", "--kv-cache-dtype.a with a path"),
        ({"environment": {"NCCL_ALGO": "/tmp/x"}}, "environment.NCCL_ALGO", "the variable NCCL_ALGO with a path"),
        (
            {"environment": {"VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": "x"}},
            "environment.VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR",
            "the variable VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR",
        ),
    ],
)
def test_what_every_lab_allows_names_no_file(home: Home, arm: dict[str, Any], field: str, words: str) -> None:
    study = home.study(arms=[PLAIN | arm])
    (problem,) = setting_problems(home.settings, study, Role.ADMINISTRATOR)
    assert problem[0] == f"arms[0].{field}"
    assert problem[1].startswith(f"this lab's policy does not let a study use {words}: an administrator can allow it")
    assert launch_problems(home.settings, study, study.arms[0]) == [problem]
    write_policy(
        home,
        '[engines.vllm]\nenvironment = ["NCCL_ALGO", "VLLM_*"]\nflags = ["generation-config", "kv_cache_dtype"]\n',
    )
    assert setting_problems(home.settings, study, Role.SUBMITTER) == [], "what an administrator lists may"


def test_the_line_to_add_fits_into_the_policy_that_is_there(home: Home) -> None:
    """A second line of one key, or one for the whole lab below a table, would make the file unreadable."""
    arm = {"flags": {"trust-remote-code": True, "hf-overrides": "{}"}, "environment": {"MY_SWITCH": "1"}}
    study = home.study(arms=[PLAIN | arm])
    write_policy(home, 'remote_code = ["administrator"]\n[engines.vllm]\nflags = ["x"]\n')
    path = f"{home.settings.home.absolute()}/policy.toml"
    said = dict(setting_problems(home.settings, study, Role.SUBMITTER))
    begin = "this lab's policy does not let a study use "
    can = "an administrator can allow it"
    assert said == {
        "arms[0].flags.trust-remote-code": f"{begin}Python that comes with a model: {can} "
        f'by adding "submitter" to remote_code of {path}',
        "arms[0].flags.hf-overrides": f'{begin}--hf-overrides: {can} by adding "hf-overrides" to flags '
        f"below [engines.vllm] in {path}",
        "arms[0].environment.MY_SWITCH": f"{begin}the variable MY_SWITCH: {can} with the line environment = "
        f'["MY_SWITCH"] below [engines.vllm] in {path}',
    }


@pytest.mark.parametrize(
    "flags",
    [
        {"middleware": "os.system"},
        {"worker-extension-cls": "a.b"},
        {"tool_parser_plugin": "/tmp/x.py"},
        {"log-config-file": "/tmp/x"},
        {"download-dir": "/root/.ssh"},
        {"allowed-local-media-path": "/"},
        {"compilation-config": '{"backend": "a.b"}'},
        {"compilation-config.backend": "a.b"},
        {"hf_overrides": "{}"},
    ],
)
def test_a_flag_that_names_code_or_files_is_refused(home: Home, flags: dict[str, Any]) -> None:
    study = home.study(arms=[PLAIN | {"flags": flags}])
    (problem,) = setting_problems(home.settings, study, Role.ADMINISTRATOR)
    assert problem[0] == f"arms[0].flags.{next(iter(flags))}"
    assert launch_problems(home.settings, study, study.arms[0]) == [problem]
    in_file = home.study(arms=[PLAIN | {"config": flags}])
    assert setting_problems(home.settings, in_file, Role.ADMINISTRATOR)[0][0].startswith("arms[0].config.")
    shared = home.study(arms=[PLAIN], engine_flags=flags)
    assert setting_problems(home.settings, shared, Role.ADMINISTRATOR)[0][0].startswith("engine_flags.")


def test_what_an_administrator_adds_is_allowed_for_that_engine_alone(home: Home) -> None:
    study = home.study(arms=[PLAIN | {"environment": {"VLLM_X": "1"}, "flags": {"hf_overrides": "{}"}}])
    assert len(setting_problems(home.settings, study, Role.SUBMITTER)) == 2
    write_policy(home, '[engines.vllm]\nenvironment = ["VLLM_X"]\nflags = ["hf-overrides"]\n')
    assert setting_problems(home.settings, study, Role.SUBMITTER) == []
    assert launch_problems(home.settings, study, study.arms[0]) == []
    write_policy(home, '[engines.sglang]\nenvironment = ["VLLM_X"]\nflags = ["hf-overrides"]\n')
    assert len(setting_problems(home.settings, study, Role.SUBMITTER)) == 2


def test_who_may_run_code_of_a_model_is_said_by_role(home: Home) -> None:
    study = home.study(arms=[PLAIN | {"flags": {"trust_remote_code": True}}])
    ((_, sentence),) = setting_problems(home.settings, study, Role.ADMINISTRATOR)
    assert 'with the line remote_code = ["administrator"] at the top of ' in sentence
    write_policy(home, 'remote_code = ["administrator"]\n')
    assert setting_problems(home.settings, study, Role.ADMINISTRATOR) == []
    assert setting_problems(home.settings, study, Role.SUBMITTER) != []
    assert launch_problems(home.settings, study, study.arms[0]) == []


def test_the_role_is_asked_again_before_a_start(home: Home) -> None:
    """Whoever lost it, or may not sign in any more, runs no code of a model; the host's own command may."""
    write_policy(home, 'remote_code = ["administrator"]\n')
    accounts.add_user(home.database, "eve", Role.ADMINISTRATOR, actor=ADMIN)
    for field in ({"flags": {"trust_remote_code": True}}, {"config": {"trust-remote-code": True}}):
        study = home.study(arms=[PLAIN | field])
        arm = study.arms[0]
        assert author_problems(home.settings, study, arm, accounts.role_now(home.database, "eve")) == []
        assert author_problems(home.settings, study, arm, accounts.role_now(home.database, None)) == []
        assert author_problems(home.settings, study, arm, Role.SUBMITTER) != []
        assert author_problems(home.settings, study, arm, None) != []
    assert author_problems(home.settings, home.study(), home.study().arms[0], None) == []
    accounts.set_role(home.database, "eve", Role.SUBMITTER, actor=ADMIN)
    assert accounts.role_now(home.database, "eve") is Role.SUBMITTER
    accounts.disable(home.database, "eve", actor=ADMIN)
    assert accounts.role_now(home.database, "eve") is None


@pytest.mark.parametrize("flag", ["host", "HOST", "no-host", "speculative_config.model", "api_key", "port", "model.x"])
def test_a_flag_that_drafthouse_sets_is_refused_in_every_spelling(home: Home, flag: str) -> None:
    assert "Drafthouse sets this itself" in refused(home, flags={flag: "x"})[f"arms[0].flags.{flag}"]


def test_a_value_cannot_become_a_flag(home: Home) -> None:
    study = home.study(arms=[PLAIN | {"flags": {"max_num_seqs": "--host=0.0.0.0"}}])
    words = vllm.arguments(home.settings.models_dir, study, study.arms[0], 1, home.folder, takes=lambda _: True)
    assert [word for word in words if word.startswith("--host")] == ["--host"]
    assert "--max-num-seqs=--host=0.0.0.0" in words
    words = transformers.arguments(home.settings.models_dir, study, study.arms[0], 1, home.folder, takes=lambda _: True)
    assert "--max-num-seqs=--host=0.0.0.0" in words


def test_a_model_cannot_be_a_flag(home: Home) -> None:
    with pytest.raises(StudyError, match="a name that begins with - would be read as a flag"):
        check_study(home.settings, home.study(target="--host=0.0.0.0", arms=[PLAIN]))


def test_the_home_of_a_user_who_does_not_exist_is_a_problem_of_the_study(home: Home) -> None:
    with pytest.raises(StudyError) as error:
        check_study(home.settings, home.study(target="~nosuchuser/model"), Role.SUBMITTER)
    assert "~nosuchuser/model" in dict(error.value.problems)["target"]
    with pytest.raises(StudyError) as error:
        check_study(home.settings, home.study(workloads=[{"dataset": "~nosuchuser/rows.jsonl"}]), Role.SUBMITTER)
    assert "~nosuchuser/rows.jsonl" in str(error.value)


def shared(home: Home) -> Settings:
    """A lab that people log in to."""
    return home.settings.model_copy(update={"web_login": "accounts"})


def test_where_people_log_in_only_named_folders_have_models_and_datasets(home: Home, tmp_path: Path) -> None:
    secret, models = tmp_path / "secret.jsonl", tmp_path / "big"
    models.mkdir()
    (models / "link").symlink_to(tmp_path)
    for dataset, target in (
        (str(secret), "reference"),
        ("reference", str(models / "link")),
        ("/dev/zero", "reference"),
    ):
        study = home.study(arms=[PLAIN], target=target, workloads=[{"dataset": dataset}])
        assert place_problems(home.settings, study) == []
        ((field, sentence),) = place_problems(shared(home), study)
        assert field == ("target" if target != "reference" else "workloads[0]")
        assert "this lab's policy does not let a study use" in sentence
    write_policy(home, f'model_folders = ["{models}"]\ndataset_folders = ["{tmp_path}"]\n')
    study = home.study(arms=[PLAIN], target=str(models), workloads=[{"dataset": str(secret)}])
    assert place_problems(shared(home), study) == []
    linked = home.study(arms=[PLAIN], target=str(models / "link"))
    assert len(place_problems(shared(home), linked)) == 1, "a link out of the folder"


def test_a_place_that_is_not_allowed_is_not_looked_at(home: Home, tmp_path: Path) -> None:
    """Whether a file of somebody else is there is not told."""
    sentences = []
    for name in ("there.jsonl", "not there.jsonl"):
        (tmp_path / "there.jsonl").write_text("{}")
        with pytest.raises(StudyError) as error:
            check_study(shared(home), home.study(arms=[PLAIN], workloads=[{"dataset": str(tmp_path / name)}]))
        sentences.append(str(error.value))
    assert sentences[0] == sentences[1]


def test_where_people_log_in_a_server_is_measured_only_if_its_host_is_listed(home: Home) -> None:
    server = {"engine": "endpoint", "server": {"base_url": "http://gpu7.lab.example:8000"}}
    study = home.study(arms=[PLAIN | server], target="reference", workloads=[{"dataset": "reference"}])
    assert place_problems(home.settings, study) == []
    ((field, sentence),) = place_problems(shared(home), study)
    assert field == "arms[0].server.base_url"
    assert 'with the line endpoint_hosts = ["gpu7.lab.example"] at the top of ' in sentence
    write_policy(home, 'endpoint_hosts = ["*.lab.example"]\n')
    assert place_problems(shared(home), study) == []


def test_a_study_longer_than_the_policy_allows_is_refused(home: Home) -> None:
    write_policy(home, "most_runs = 3\nmost_hours = 0.0001\n")
    runs, hours = setting_problems(home.settings, home.study(arms=[PLAIN], repeats=4), Role.SUBMITTER)
    path = f"{home.settings.home.absolute()}/policy.toml"
    assert runs[1] == (
        "this study may take 8 runs, and this lab's policy allows 3: split it; or an administrator can allow it "
        f"with the line most_runs = 8 at the top of {path}"
    )
    assert hours[1].startswith("this study takes about 0.")
    assert hours[1].endswith(
        f"policy allows 0.0001: split it; or an administrator can allow it with the line "
        f"most_hours = 1 at the top of {path}"
    )


@pytest.mark.parametrize("text", ["[", "flags = 1", "[engines.vllm]\nflag = []", 'remote_code = ["root"]'])
def test_with_a_policy_that_cannot_be_read_nothing_is_submitted(home: Home, text: str) -> None:
    write_policy(home, text)
    with pytest.raises(SettingsError, match=r"policy\.toml"):
        check_study(home.settings, home.study(arms=[PLAIN]))


def test_every_preset_and_every_example_of_the_documents_passes(home: Home) -> None:
    for preset in all_presets():
        assert setting_problems(home.settings, preset.study, Role.SUBMITTER) == [], preset.name


def test_a_row_that_came_into_the_table_in_another_way_does_not_start_an_engine(home: Home) -> None:
    job_id = home.submit()
    job = home.job(job_id)
    arm = job.study.arms[0].model_copy(update={"environment": {"LD_PRELOAD": "/tmp/x.so"}})
    bad: Study = job.study.model_copy(update={"arms": (arm, *job.study.arms[1:])})
    with home.database.begin() as connection:
        values = {"study_json": json.dumps(bad.model_dump(mode="json"))}
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(values))
    with pytest.raises(StudyError, match="the variable LD_PRELOAD"):
        engine_command(home.settings, home.job(job_id).study, arm, home.folder / "log")
