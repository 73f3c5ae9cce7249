"""Settings are passed on under TRL's names, and what cannot be is refused by name."""

from __future__ import annotations

import pytest

from envwright.env.errors import UserError
from envwright.training.settings import GrpoSettings
from envwright.training.trl_config import check_passed_on, trl_config


def _config(settings: GrpoSettings) -> object:
    return trl_config(settings, "unused", 3, use_cpu=True, chat_template_kwargs={"enable_thinking": False})


def test_any_other_field_of_trl_is_passed_on(tmp_path: object) -> None:
    settings = GrpoSettings.model_validate({"trl": {"epsilon_high": 0.28, "top_k": 5}})
    config = _config(settings)
    assert (config.epsilon_high, config.top_k) == (0.28, 5)  # type: ignore[attr-defined]
    assert config.chat_template_kwargs == {"enable_thinking": False}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("epsilon_hihg", "TRL's GRPOConfig has no such field; did you mean 'epsilon_high'"),
        ("learning_rate", r"this is a setting of its own; set grpo\.learning_rate"),
        ("output_dir", "envwright sets this itself; leave it out"),
        ("epsilon_high", "expected a number, got 'high'"),
        ("top_p", "own sampler draws from the whole distribution; set grpo.sampler to hf or vllm"),
        ("num_iterations", "envwright sets this itself; leave it out"),
    ],
)
def test_fields_that_cannot_be_passed_on_are_refused_by_name(key: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_passed_on(GrpoSettings.model_validate({"trl": {key: "high"}}))


def test_what_trl_refuses_is_one_line() -> None:
    settings = GrpoSettings.model_validate({"trl": {"generation_batch_size": 7}})
    with pytest.raises(UserError, match="grpo: TRL refuses the settings: ") as caught:
        _config(settings)
    assert "\n" not in str(caught.value)
