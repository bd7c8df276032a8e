"""A study is data, not a command: what it may set is listed, and everything else is refused with the line to add."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from access import accounts
from host.settings import Settings
from jobs import policy
from jobs.engines.kinds import transformers, vllm
from jobs.policy import author_problems, launch_problems, location_problems, setting_problems
from jobs.presets import all_presets
from jobs.submission import Context, absolute, check_study
from lab.errors import SettingsError, StudyError
from lab.roles import Role
from lab.study import Study
from tests.actors import ADMIN
from tests.jobs.engines.test_capabilities import H200, report
from tests.workers.homes import Home
from warehouse.app_db.schema import jobs as jobs_table
from workers.engine_runtime.launch import engine_command

PLAIN: dict[str, Any] = {"name": "plain", "baseline": True}


def refused(home: Home, **arm: Any) -> dict[str, str]:
    """What submission says of a study whose only arm has these."""
    with pytest.raises(StudyError) as error:
        check_study(home.settings, home.study(arms=[PLAIN | arm]), Role.SUBMITTER)
    return dict(error.value.problems)


def write_policy(home: Home, text: str) -> None:
    policy.policy_file(home.settings).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "PATH",
        "PYTHONPATH",
        "PYTHONWARNINGS",
        "BROWSER",
        "HF_ENDPOINT",
        "DOCKER_HOST",
        "TRITON_CACHE_DIR",
        "VLLM_PLUGINS",
        "CC",
    ],
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
    (problem,) = setting_problems(Context(home.settings).rules, study, Role.ADMINISTRATOR)
    assert problem[0] == f"arms[0].{field}"
    assert problem[1].startswith(f"this lab's policy does not let a study use {words}: an administrator can allow it")
    assert launch_problems(Context(home.settings).rules, study, study.arms[0]) == [problem]
    write_policy(
        home,
        '[engines.vllm]\nenvironment = ["NCCL_ALGO", "VLLM_*"]\nflags = ["generation-config", "kv_cache_dtype"]\n',
    )
    assert setting_problems(Context(home.settings).rules, study, Role.SUBMITTER) == [], (
        "what an administrator lists may"
    )


def test_the_line_to_add_fits_into_the_policy_that_is_there(home: Home) -> None:
    """A second line of one key, or one for the whole lab below a table, would make the file unreadable."""
    arm = {"flags": {"trust-remote-code": True, "hf-overrides": "{}"}, "environment": {"MY_SWITCH": "1"}}
    study = home.study(arms=[PLAIN | arm])
    write_policy(home, 'remote_code = ["administrator"]\n[engines.vllm]\nflags = ["x"]\n')
    path = f"{home.settings.home.absolute()}/policy.toml"
    said = dict(setting_problems(Context(home.settings).rules, study, Role.SUBMITTER))
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
    (problem,) = setting_problems(Context(home.settings).rules, study, Role.ADMINISTRATOR)
    assert problem[0] == f"arms[0].flags.{next(iter(flags))}"
    assert launch_problems(Context(home.settings).rules, study, study.arms[0]) == [problem]
    in_file = home.study(arms=[PLAIN | {"config": flags}])
    assert setting_problems(Context(home.settings).rules, in_file, Role.ADMINISTRATOR)[0][0].startswith(
        "arms[0].config."
    )
    shared = home.study(arms=[PLAIN], engine_flags=flags)
    assert setting_problems(Context(home.settings).rules, shared, Role.ADMINISTRATOR)[0][0].startswith("engine_flags.")


BACKSLASHED = '{"a": "\\u002fetc"}'
TWICE = '{"image": 1, "image": "--x"}'


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"dtype": "--trust-remote-code"}, "dtype"),
        ({"dtype": "\n --trust-remote-code"}, "dtype"),
        ({"dtype": ["auto", "--enable-lora"]}, "dtype"),
        ({"dtype": [["-x"]]}, "dtype"),
        ({"dtype": [{"a": {"-x": 1}}]}, "dtype"),
        ({"dtype": {"a": {"b": "--enable-lora"}}}, "dtype.a.b"),
        ({"dtype": '["--enable-lora"]'}, "dtype"),
        ({"dtype": "1 --enable-lora"}, "dtype"),
        ({"dtype": "auto\nhost: 0.0.0.0"}, "dtype"),
        ({"dtype": BACKSLASHED}, "dtype"),
        ({"dtype": '"\\u002fetc"'}, "dtype"),
        ({"dtype": TWICE}, "dtype"),
        ({"dtype": '{"a": NaN}'}, "dtype"),
        ({"dtype": "{" * 5000}, "dtype"),
        ({"dtype": {"a b": 1}}, "dtype.'a b'"),
        ({"middleware": {}}, "middleware"),
        ({"middleware": []}, "middleware"),
        ({"compilation-config": {"pass_config": {"enable": {}}}}, "compilation-config.pass_config.enable"),
        ({"compilation-config": {"mode.backend": "a.b"}}, "compilation-config.'mode.backend'"),
        ({"trust_remote_code": {}}, "trust_remote_code"),
        ({"Trust-Remote": True}, "Trust-Remote"),
        ({"dtype=auto --enable-lora": 1}, "dtype=auto --enable-lora"),
        ({"-O3": True}, "-O3"),
        ({"": True}, ""),
    ],
)
def test_a_configuration_is_judged_whole_however_it_is_nested(home: Home, config: dict[str, Any], field: str) -> None:
    engines = home.settings.engines_file
    kinds = ("vllm", "sglang", "tensorrt_llm")
    tables = [f'\n[it_{kind}]\nkind = "{kind}"\ncommand = ["sh"]\n' for kind in kinds]
    engines.write_text(engines.read_text() + "".join(tables))
    rules = Context(home.settings).rules
    for kind in kinds:
        study = home.study(arms=[PLAIN | {"engine": f"it_{kind}", "config": config}])
        problems = setting_problems(rules, study, Role.ADMINISTRATOR)
        assert [where for where, _ in problems] == [f"arms[0].config.{field}"], kind
        assert launch_problems(rules, study, study.arms[0]) == problems


def test_settings_of_performance_pass_in_every_way_of_writing_them(home: Home) -> None:
    config = {
        "compilation-config": {"mode": 3, "cudagraph_capture_sizes": [1, 2, 4]},
        "limit-mm-per-prompt": '{"image": 2}',
        "kv_cache_dtype": "fp8_e4m3",
        "max-model-len": "8k",
        "enable-prefix-caching": False,
    }
    options = {"speculative_token_tree": "[(0,), (0, 0)]", "kv_cache_dtype": "fp8", "draft_sample_method": "greedy"}
    speculation = {"method": "eagle3", "model": "owner/head", "num_speculative_tokens": 2, "options": options}
    environment = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:128", "NCCL_ALGO": "^Ring"}
    environment |= {"GOMP_CPU_AFFINITY": "0 3-5:2", "OMP_NUM_THREADS": "", "VLLM_CPU_OMP_THREADS_BIND": "0-3|4-7"}
    arm = PLAIN | {"config": config, "speculation": speculation, "environment": environment}
    study = home.study(arms=[arm | {"flags": {"compilation-config": '{"mode": 3}', "seed": -1}}])
    assert setting_problems(Context(home.settings).rules, study, Role.SUBMITTER) == []


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"VLLM_V1_X=1\nLD_PRELOAD": "x"}, "is not a valid environment variable"),
        ({"NCCL_ALGO": "ring\0LD_PRELOAD=x"}, "is not a valid environment variable"),
        ({"NCCL_ALGO": "$(id)"}, "the variable NCCL_ALGO with text that is more than a word"),
        ({"NCCL_ALGO": "a\nb"}, "the variable NCCL_ALGO with text that is more than a word"),
    ],
)
def test_a_variable_has_a_name_and_plain_text(home: Home, environment: dict[str, str], words: str) -> None:
    study = home.study(arms=[PLAIN | {"environment": environment}])
    ((_, sentence),) = setting_problems(Context(home.settings).rules, study, Role.ADMINISTRATOR)
    assert words in sentence


def test_a_method_that_is_not_listed_is_refused(home: Home) -> None:
    """vLLM's custom_class imports and calls whatever the model's name is."""
    speculation = {"method": "custom_class", "model": "http.server.test", "num_speculative_tokens": 1}
    study = home.study(arms=[PLAIN | {"speculation": speculation}])
    ((field, sentence),) = setting_problems(Context(home.settings).rules, study, Role.ADMINISTRATOR)
    assert field == "arms[0].speculation.method"
    assert "the method custom_class: an administrator can allow it" in sentence
    assert 'with the line methods = ["custom_class"] below [engines.vllm] in ' in sentence
    assert launch_problems(Context(home.settings).rules, study, study.arms[0]) == [(field, sentence)]
    write_policy(home, '[engines.vllm]\nmethods = ["custom_class"]\n')
    assert setting_problems(Context(home.settings).rules, study, Role.SUBMITTER) == []


HOSTILE: dict[str, Any] = {
    "flags": {"middleware": "a.b"},
    "config": {"worker-extension-cls": "a.b"},
    "environment": {"PYTHONWARNINGS": "all:0:antigravity.x:0:0"},
    "speculation": {"method": "custom_class", "num_speculative_tokens": 1, "options": {"draft_load_config": {}}},
}


def test_an_arm_with_a_server_is_judged_if_its_engine_is_started(home: Home) -> None:
    server = {"server": {"base_url": "http://127.0.0.1:8000"}}
    for engine in ("vllm", "nobody-has-this"):
        study = home.study(arms=[PLAIN | HOSTILE | server | {"engine": engine}])
        problems = setting_problems(Context(home.settings).rules, study, Role.ADMINISTRATOR)
        assert {field for field, _ in problems} == {
            "arms[0].server",
            "arms[0].flags.middleware",
            "arms[0].config.worker-extension-cls",
            "arms[0].environment.PYTHONWARNINGS",
            "arms[0].speculation.method",
            "arms[0].speculation.options.draft_load_config",
        }
        assert set(problems) <= set(launch_problems(Context(home.settings).rules, study, study.arms[0]))
        with pytest.raises(StudyError, match='to measure a running server use engine = "endpoint"'):
            engine_command(home.settings, study, study.arms[0], home.folder / "log")
    recorded = {"speculation": {"method": "their_own", "num_speculative_tokens": 3}}
    endpoint = home.study(arms=[PLAIN | server | recorded | {"engine": "endpoint"}])
    assert setting_problems(Context(home.settings).rules, endpoint, Role.SUBMITTER) == [], (
        "what a running server does is only recorded"
    )


def test_an_engine_that_nobody_knows_is_waited_for_not_accepted(home: Home) -> None:
    """Workers elsewhere report their engines a few seconds after they have started."""
    elsewhere = home.settings.model_copy(update={"workers_elsewhere": True})
    study = home.study(arms=[PLAIN | {"engine": "gpu-vllm", "flags": {"max_num_seqs": 8}}])
    with pytest.raises(StudyError, match="a worker that has reported its engines has 'gpu-vllm'") as error:
        check_study(elsewhere, study)
    assert "arms[0].engine" in dict(error.value.problems)
    report(home, H200)
    with pytest.raises(StudyError, match="has no flag --max-num-seqs"):
        check_study(elsewhere, study)
    report(home, H200.model_copy(update={"flags": ("max-num-seqs", "middleware")}))
    check_study(elsewhere, study)
    with pytest.raises(StudyError, match="does not let a study use --middleware"):
        check_study(elsewhere, home.study(arms=[PLAIN | {"engine": "gpu-vllm", "flags": {"middleware": "a.b"}}]))


def test_what_an_administrator_adds_is_allowed_for_that_engine_alone(home: Home) -> None:
    study = home.study(arms=[PLAIN | {"environment": {"VLLM_X": "1"}, "flags": {"hf_overrides": "{}"}}])
    assert len(setting_problems(Context(home.settings).rules, study, Role.SUBMITTER)) == 2
    write_policy(home, '[engines.vllm]\nenvironment = ["VLLM_X"]\nflags = ["hf-overrides"]\n')
    assert setting_problems(Context(home.settings).rules, study, Role.SUBMITTER) == []
    assert launch_problems(Context(home.settings).rules, study, study.arms[0]) == []
    write_policy(home, '[engines.sglang]\nenvironment = ["VLLM_X"]\nflags = ["hf-overrides"]\n')
    assert len(setting_problems(Context(home.settings).rules, study, Role.SUBMITTER)) == 2


def test_who_may_run_code_of_a_model_is_said_by_role(home: Home) -> None:
    study = home.study(arms=[PLAIN | {"flags": {"trust_remote_code": True}}])
    ((_, sentence),) = setting_problems(Context(home.settings).rules, study, Role.ADMINISTRATOR)
    assert 'with the line remote_code = ["administrator"] at the top of ' in sentence
    write_policy(home, 'remote_code = ["administrator"]\n')
    assert setting_problems(Context(home.settings).rules, study, Role.ADMINISTRATOR) == []
    assert setting_problems(Context(home.settings).rules, study, Role.SUBMITTER) != []
    assert launch_problems(Context(home.settings).rules, study, study.arms[0]) == []
    more = home.study(arms=[PLAIN | {"config": {"trust_remote_code": ["--middleware=a.b"]}}])
    ((_, sentence),) = setting_problems(Context(home.settings).rules, more, Role.ADMINISTRATOR)
    assert sentence == "must be true or false, got ['--middleware=a.b']"


def test_the_role_is_asked_again_before_a_start(home: Home) -> None:
    """Whoever lost it, or may not sign in any more, runs no code of a model; the host's own command may."""
    write_policy(home, 'remote_code = ["administrator"]\n')
    accounts.add_user(home.database, "eve", Role.ADMINISTRATOR, actor=ADMIN)
    for field in ({"flags": {"trust_remote_code": True}}, {"config": {"trust-remote-code": True}}):
        study = home.study(arms=[PLAIN | field])
        arm = study.arms[0]
        assert author_problems(Context(home.settings).rules, study, arm, accounts.role_now(home.database, "eve")) == []
        assert author_problems(Context(home.settings).rules, study, arm, accounts.role_now(home.database, None)) == []
        assert author_problems(Context(home.settings).rules, study, arm, Role.SUBMITTER) != []
        assert author_problems(Context(home.settings).rules, study, arm, None) != []
    assert author_problems(Context(home.settings).rules, home.study(), home.study().arms[0], None) == []
    accounts.set_role(home.database, "eve", Role.SUBMITTER, actor=ADMIN)
    assert accounts.role_now(home.database, "eve") is Role.SUBMITTER
    accounts.disable(home.database, "eve", actor=ADMIN)
    assert accounts.role_now(home.database, "eve") is None


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


def test_an_unknown_users_home_is_a_problem_of_the_study(home: Home) -> None:
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
        assert location_problems(Context(home.settings).rules, study) == []
        ((field, sentence),) = location_problems(Context(shared(home)).rules, study)
        assert field == ("target" if target != "reference" else "workloads[0]")
        assert "this lab's policy does not let a study use" in sentence
    write_policy(home, f'model_folders = ["{models}"]\ndataset_folders = ["{tmp_path}"]\n')
    study = home.study(arms=[PLAIN], target=str(models), workloads=[{"dataset": str(secret)}])
    assert location_problems(Context(shared(home)).rules, study) == []
    linked = home.study(arms=[PLAIN], target=str(models / "link"))
    assert len(location_problems(Context(shared(home)).rules, linked)) == 1, "a link out of the folder"


def test_a_place_that_is_not_allowed_is_not_looked_at(home: Home, tmp_path: Path) -> None:
    """Whether a file of somebody else is there is not told."""
    sentences = []
    for name in ("there.jsonl", "not there.jsonl"):
        (tmp_path / "there.jsonl").write_text("{}")
        with pytest.raises(StudyError) as error:
            check_study(shared(home), home.study(arms=[PLAIN], workloads=[{"dataset": str(tmp_path / name)}]))
        sentences.append(str(error.value))
    assert sentences[0] == sentences[1]


def test_whether_a_model_or_dataset_is_there_is_not_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names without ./ may be folders, too: below the current one, or by way of it anywhere."""
    monkeypatch.chdir(home.folder)
    (home.folder / "a" / "kxa").mkdir(parents=True)
    (home.folder / "a" / "kxa" / "config.json").write_text("{}")
    (home.folder / "kxa").write_text("{}")
    for name in ("a/{}/../{}", "a/../../{}", "a/b/{}", "./a/{}", "a/{}"):
        sentences = set()
        for name_there in ("kxa", "kxb"):
            study = home.study(
                arms=[PLAIN], target=name.format(name_there, name_there), workloads=[{"dataset": "reference"}]
            )
            with pytest.raises(StudyError) as error:
                check_study(shared(home), study)
            sentences.add(str(error.value).replace(name_there, "X"))
        assert len(sentences) == 1, sentences
    told = set()
    for name_there in ("kxa", "kxb"):
        with pytest.raises(StudyError) as error:
            check_study(shared(home), home.study(arms=[PLAIN], target="reference", workloads=[{"dataset": name_there}]))
        told.add(str(error.value).replace(name_there, "X"))
    assert len(told) == 1, told


def test_a_folder_that_is_called_like_a_hub_model_stays_hidden(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.folder)
    (home.folder / "a" / "model").mkdir(parents=True)
    study = home.study(arms=[PLAIN], target="a/model", workloads=[{"dataset": "reference"}])
    assert absolute(Context(home.settings), study).target == str(home.folder / "a" / "model")
    assert absolute(Context(shared(home)), study).target == "a/model"
    write_policy(home, f'model_folders = ["{home.folder}"]\n')
    assert absolute(Context(shared(home)), study).target == str(home.folder / "a" / "model")


@pytest.mark.parametrize("name", ["s3://bucket/model", "gs://bucket/model", "http://host/model", "owner/model extra"])
def test_a_model_is_a_folder_or_a_name_on_the_hub(home: Home, name: str) -> None:
    draft = {"method": "draft_model", "model": name, "num_speculative_tokens": 3}
    study = home.study(arms=[PLAIN | {"speculation": draft}], target=name, workloads=[{"dataset": "reference"}])
    fields = [field for field, _ in location_problems(Context(shared(home)).rules, study)]
    assert fields == ["target", "arms[0].speculation.model"]
    for hub in ("gpt2", "Qwen/Qwen3-0.6B", "unsloth/Qwen3-0.6B-GGUF:Q4_K_M"):
        assert (
            location_problems(
                Context(shared(home)).rules, study.model_copy(update={"target": hub, "arms": home.study().arms})
            )
            == []
        )


@pytest.mark.parametrize(
    ("pattern", "lets", "refuses"),
    [
        ("10.0.0.*", ["10.0.0.7"], ["10.0.0.1.evil.com", "10.0.0.evil", "10.0.0.", "10.0.1.7"]),
        ("10.0.0.0/24", ["10.0.0.7"], ["10.0.1.7", "10.0.0.7.evil.com", "0x0a000007", "10.7"]),
        ("fd00::/8", ["[fd00::1]"], ["[fe80::1]", "fd00.evil.com"]),
        ("gpu*.lab.example", ["gpu7.lab.example"], ["gpu.evil.com.lab.example", "gpu7.lab.example.evil.com"]),
        (
            "*.lab.example",
            ["a.lab.example", "a.b.lab.example"],
            ["lab.example", "evil.com\\.lab.example", "evillab.example"],
        ),
        ("server", ["server", "SERVER"], ["server.evil.com"]),
        ("*", ["server", "10.0.0.7", "a.b.c"], []),
    ],
)
def test_a_pattern_of_a_host_means_no_other(home: Home, pattern: str, lets: list[str], refuses: list[str]) -> None:
    write_policy(home, f'endpoint_hosts = ["{pattern}"]\n')
    said = {}
    for host in (*lets, *refuses):
        server = {"engine": "endpoint", "server": {"base_url": f"http://{host}:8000"}}
        study = home.study(arms=[PLAIN | server], target="reference", workloads=[{"dataset": "reference"}])
        said[host] = location_problems(Context(home.settings).rules, study)
    assert [host for host, problems in said.items() if not problems] == lets


def test_where_people_log_in_only_servers_of_listed_hosts_are_measured(home: Home) -> None:
    server = {"engine": "endpoint", "server": {"base_url": "http://gpu7.lab.example:8000"}}
    study = home.study(arms=[PLAIN | server], target="reference", workloads=[{"dataset": "reference"}])
    assert location_problems(Context(home.settings).rules, study) == []
    ((field, sentence),) = location_problems(Context(shared(home)).rules, study)
    assert field == "arms[0].server.base_url"
    assert 'with the line endpoint_hosts = ["gpu7.lab.example"] at the top of ' in sentence
    write_policy(home, 'endpoint_hosts = ["*.lab.example"]\n')
    assert location_problems(Context(shared(home)).rules, study) == []


def test_a_study_longer_than_the_policy_allows_is_refused(home: Home) -> None:
    write_policy(home, "most_runs = 3\nmost_hours = 0.0001\n")
    runs, hours = setting_problems(Context(home.settings).rules, home.study(arms=[PLAIN], repeats=4), Role.SUBMITTER)
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


@pytest.mark.parametrize(
    "text",
    ["[", "flags = 1", 'endpoint_hosts = ["10.0.0.0/99"]', "[engines.vllm]\nflag = []", 'remote_code = ["root"]'],
)
def test_with_a_policy_that_cannot_be_read_nothing_is_submitted(home: Home, text: str) -> None:
    write_policy(home, text)
    with pytest.raises(SettingsError, match=r"policy\.toml"):
        check_study(home.settings, home.study(arms=[PLAIN]))


def test_every_preset_and_every_example_of_the_documents_passes(home: Home) -> None:
    for preset in all_presets():
        assert setting_problems(Context(home.settings).rules, preset.study, Role.SUBMITTER) == [], preset.name


def test_a_row_that_bypassed_submission_does_not_start_an_engine(home: Home) -> None:
    job_id = home.submit()
    job = home.job(job_id)
    arm = job.study.arms[0].model_copy(update={"environment": {"LD_PRELOAD": "/tmp/x.so"}})
    bad: Study = job.study.model_copy(update={"arms": (arm, *job.study.arms[1:])})
    with home.database.begin() as connection:
        values = {"study_json": json.dumps(bad.model_dump(mode="json"))}
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(values))
    with pytest.raises(StudyError, match="the variable LD_PRELOAD"):
        engine_command(home.settings, home.job(job_id).study, arm, home.folder / "log")
