"""Patches: what is refused and why, how data ratios are balanced, and that applying is pure."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.config import KNOB_BOUNDS, KNOBS, GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json
from envwright.env.patch import Change, Patch, PatchCheck, PatchProblem, apply_patch, check_patch, diff_configs, read_patch
from tests.env.boards import FEW


def config_of(*ratios: float) -> GeneratorConfig:
    """3x3, 4x4, ... with these data ratios."""
    sizes = {str(size): {"data_ratio": ratio, "hole_ratio": 0.2, "wait_ratio": 0.25} for size, ratio in enumerate(ratios, start=3)}
    return GeneratorConfig.parse({"num_agents": 2, "sizes": sizes}, "config")


def edit(path: str = "/sizes/4/wait_ratio", value: Any = 0.5, **more: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value, "reason": "41 of 60 fail", **more}


def share(size: int, value: Any) -> dict[str, Any]:
    return edit(f"/sizes/{size}/data_ratio", value)


def patch_of(*edits: Any, **more: Any) -> dict[str, Any]:
    return {"schema_version": 1, "summary": "more waiting", "edits": list(edits), **more}


def codes(problems: tuple[PatchProblem, ...]) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in problems]


def ratios(config: GeneratorConfig) -> list[float]:
    return [knobs.data_ratio for _, knobs in config.buckets()]


CONFIG = config_of(0.5, 0.3, 0.2)


def test_an_accepted_patch_shows_the_diff_the_config_and_itself() -> None:
    raw = patch_of(edit(), edit("/sizes/3/hole_ratio", 0))
    after = CONFIG.to_json()
    after["sizes"]["4"]["wait_ratio"] = 0.5
    after["sizes"]["3"]["hole_ratio"] = 0.0
    assert check_patch(CONFIG, raw) == PatchCheck(
        accepted=True,
        diff=(Change(path="/sizes/3/hole_ratio", before=0.2, after=0.0), Change(path="/sizes/4/wait_ratio", before=0.25, after=0.5)),
        config=GeneratorConfig.parse(after, "after"),
        patch=Patch.parse(raw, "patch"),
    )


REFUSED: dict[str, tuple[Any, str, str]] = {
    "unknown size": (patch_of(edit("/sizes/9/wait_ratio")), "/sizes/9/wait_ratio", "unknown_path"),
    "unknown knob": (patch_of(edit("/sizes/4/depth")), "/edits/0/path", "unknown_path"),
    "array end": (patch_of(edit("/foo/-")), "/edits/0/path", "unknown_path"),
    "escaped slash": (patch_of(edit("/sizes/4~1wait_ratio")), "/edits/0/path", "unknown_path"),
    "out of the engineer's reach": (patch_of(edit("/num_agents", 1)), "/edits/0/path", "unknown_path"),
    "whole size": (patch_of(edit("/sizes/4")), "/edits/0/path", "unknown_path"),
    "path that is no string": (patch_of(edit(path=["sizes"])), "/edits/0/path", "unknown_path"),  # type: ignore[arg-type]
    "path with a line break": (patch_of(edit("/sizes/4/wait_ratio\n")), "", "schema"),
    "repeated path": (patch_of(edit(), edit(value=0.6)), "/sizes/4/wait_ratio", "repeated_path"),
    "same edit twice": (patch_of(edit(), edit()), "/sizes/4/wait_ratio", "repeated_path"),
    "NaN": (patch_of(edit(value=float("nan"))), "/sizes/4/wait_ratio", "bad_value"),
    "Infinity": (patch_of(edit(value=float("inf"))), "/sizes/4/wait_ratio", "bad_value"),
    "word": (patch_of(edit(value="half")), "/sizes/4/wait_ratio", "bad_value"),
    "exponent in a string": (patch_of(edit(value="5e-1")), "/sizes/4/wait_ratio", "bad_value"),
    "spaces in a string": (patch_of(edit(value=" 0.5 ")), "/sizes/4/wait_ratio", "bad_value"),
    "digits that are not ASCII": (patch_of(edit(value="٠.٥")), "/sizes/4/wait_ratio", "bad_value"),
    "NaN in a string": (patch_of(edit(value="nan")), "/sizes/4/wait_ratio", "bad_value"),
    "empty string": (patch_of(edit(value="")), "/sizes/4/wait_ratio", "bad_value"),
    "null": (patch_of(edit(value=None)), "/sizes/4/wait_ratio", "bad_value"),
    "boolean": (patch_of(edit(value=True)), "/sizes/4/wait_ratio", "bad_value"),
    "list": (patch_of(edit(value=[0.5])), "/sizes/4/wait_ratio", "bad_value"),
    "above the bound": (patch_of(edit(value=1.5)), "/sizes/4/wait_ratio", "out_of_bounds"),
    "above the bound, as a string": (patch_of(edit(value="1.5")), "/sizes/4/wait_ratio", "out_of_bounds"),
    "below the bound": (patch_of(edit(value=-0.1)), "/sizes/4/wait_ratio", "out_of_bounds"),
    "above the knob's own bound": (patch_of(edit("/sizes/4/hole_ratio", 0.6)), "/sizes/4/hole_ratio", "out_of_bounds"),
    "beyond a double": (patch_of(edit(value=10**399)), "/sizes/4/wait_ratio", "out_of_bounds"),
    "no change": (patch_of(edit(value=0.25)), "/edits", "no_change"),
    "no change of a data ratio": (patch_of(share(4, 0.3)), "/edits", "no_change"),
    "other operation": (patch_of(edit(op="add")), "/edits/0/op", "bad_op"),
    "no edit": (patch_of(), "/edits", "schema"),
    "edit that is no object": (patch_of(5), "/edits/0", "schema"),
    "edit without a value": (patch_of({"op": "replace", "path": "/sizes/4/wait_ratio", "reason": "r"}), "/edits/0", "schema"),
    "edit without a reason": (patch_of({"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.5}), "/edits/0", "schema"),
    "empty reason": (patch_of(edit(reason="")), "/edits/0/reason", "schema"),
    "evidence that is no list": (patch_of(edit(evidence="failure_breakdown#1")), "/edits/0/evidence", "schema"),
    "unknown key of an edit": (patch_of(edit(note="n")), "/edits/0", "schema"),
    "unknown key": (patch_of(edit(), note="n"), "", "schema"),
    "no summary": ({"schema_version": 1, "edits": [edit()]}, "", "schema"),
    "other version": (patch_of(edit(), schema_version=2), "/schema_version", "schema"),
    "half a surrogate pair": (patch_of(edit(), summary="\ud800"), "", "schema"),
    "edits as an object": ({"summary": "s", "edits": {"0": edit(value=float("nan"))}}, "/edits/0/value", "schema"),
    "a list": ([edit()], "", "schema"),
    "nothing": (None, "", "schema"),
    "edits above 1": (patch_of(share(3, 0.7), share(4, 0.4)), "/sizes", "sum_exceeds_one"),
    "all sizes edited, far from 1": (patch_of(share(3, 0.5), share(4, 0.3), share(5, 0.18)), "/sizes", "bad_sum"),
    "all sizes edited to 0": (patch_of(share(3, 0), share(4, 0), share(5, 0)), "/sizes", "bad_sum"),
}


@pytest.mark.parametrize(("raw", "path", "code"), REFUSED.values(), ids=REFUSED)
def test_a_refused_patch_names_path_and_reason_and_leaves_the_config(raw: Any, path: str, code: str) -> None:
    check = check_patch(CONFIG, raw)
    assert (check.accepted, codes(check.errors), check.diff, check.config) == (False, [(path, code)], (), CONFIG)


def test_a_refusal_tells_the_bound_or_the_known_paths() -> None:
    def message(*edits: dict[str, Any]) -> str:
        return check_patch(CONFIG, patch_of(*edits)).errors[0].message

    assert message(edit("/sizes/4/hole_ratio", 0.6)) == "hole_ratio must be between 0 and 0.5, got 0.6"
    assert message(edit("/sizes/9/wait_ratio")) == (
        "no knob at '/sizes/9/wait_ratio'; paths are /sizes/<size>/<knob> with size one of 3, 4, 5 and knob one of data_ratio, hole_ratio, wait_ratio"
    )
    assert message(share(3, 0.7), share(4, 0.4)) == "the edited data ratios alone sum to 1.1; leave at most 1 for all sizes"


def test_every_problem_is_told_at_once_and_nothing_is_applied_in_part() -> None:
    check = check_patch(CONFIG, patch_of(edit(), edit("/sizes/9/wait_ratio"), edit("/sizes/5/hole_ratio", 0.6), edit()))
    assert codes(check.errors) == [
        ("/sizes/9/wait_ratio", "unknown_path"),
        ("/sizes/5/hole_ratio", "out_of_bounds"),
        ("/sizes/4/wait_ratio", "repeated_path"),
    ]
    assert (check.accepted, check.config, check.diff) == (False, CONFIG, ())


@pytest.mark.parametrize(("text", "value"), [("0.3", 0.3), (".5", 0.5), ("+1", 1.0), ("0.", 0.0), ("-0", 0.0)])
def test_a_plain_decimal_string_is_read_once_with_a_warning(text: str, value: float) -> None:
    check = check_patch(CONFIG, patch_of(edit(value=text)))
    assert (check.accepted, check.config.sizes["4"].wait_ratio) == (True, value)
    assert check.patch is not None
    assert check.patch.edits[0].value == value
    assert codes(check.warnings) == [("/edits/0/value", "coerced")]
    assert repr(text) in check.warnings[0].message


def test_a_string_in_a_string_is_not_read() -> None:
    assert codes(check_patch(CONFIG, patch_of(edit(value='"0.3"'))).errors) == [("/sizes/4/wait_ratio", "bad_value")]


def test_sizes_that_were_not_edited_are_scaled_in_proportion() -> None:
    check = check_patch(CONFIG, patch_of(share(3, 0.6)))
    assert check.diff == (
        Change(path="/sizes/3/data_ratio", before=0.5, after=0.6),
        Change(path="/sizes/4/data_ratio", before=0.3, after=0.24),
        Change(path="/sizes/5/data_ratio", before=0.2, after=0.16),
    )
    assert check.warnings == ()


def test_an_edit_may_take_everything() -> None:
    assert ratios(check_patch(CONFIG, patch_of(share(4, 1))).config) == [0.0, 1.0, 0.0]


def test_what_no_other_size_can_take_is_refused() -> None:
    check = check_patch(config_of(1.0, 0.0), patch_of(share(3, 0.5)))
    assert codes(check.errors) == [("/sizes", "bad_sum")]
    assert "all other sizes have 0" in check.errors[0].message
    assert ratios(check_patch(config_of(1.0, 0.0), patch_of(share(3, 0.5), share(4, 0.5))).config) == [0.5, 0.5]


@pytest.mark.parametrize("given", [(0.5, 0.495), (0.505, 0.5)])
def test_when_every_size_is_edited_a_small_miss_is_scaled_with_a_warning(given: tuple[float, float]) -> None:
    check = check_patch(config_of(0.6, 0.4), patch_of(share(3, given[0]), share(4, given[1])))
    assert check.accepted
    assert codes(check.warnings) == [("/sizes", "scaled")]
    assert ratios(check.config) == pytest.approx([ratio / sum(given) for ratio in given])


def test_when_every_size_is_edited_to_a_sum_of_1_the_values_stay() -> None:
    check = check_patch(CONFIG, patch_of(share(3, 0.1), share(4, 0.7), share(5, 0.2)))
    assert (check.accepted, check.warnings, ratios(check.config)) == (True, (), [0.1, 0.7, 0.2])


def test_thirds_that_stay_as_they_are_change_nothing() -> None:
    thirds = config_of(1 / 3, 1 / 3, 1 / 3)
    assert codes(check_patch(thirds, patch_of(share(3, 1 / 3))).errors) == [("/edits", "no_change")]
    assert check_patch(thirds, patch_of(share(3, 1 / 3), edit())).diff == (Change(path="/sizes/4/wait_ratio", before=0.25, after=0.5),)


def test_applying_returns_a_new_config_or_raises_with_every_problem() -> None:
    before = CONFIG.to_json()
    after = apply_patch(CONFIG, Patch.parse(patch_of(edit()), "patch"))
    assert after.sizes["4"].wait_ratio == 0.5
    assert CONFIG.to_json() == before
    bad = Patch.parse(patch_of(edit("/sizes/9/wait_ratio"), edit("/sizes/3/hole_ratio", 0.9)), "patch")
    with pytest.raises(
        UserError, match=r"^patch refused: /sizes/9/wait_ratio: no knob .*; /sizes/3/hole_ratio: hole_ratio must be between"
    ):
        apply_patch(CONFIG, bad)
    assert CONFIG.to_json() == before


def test_judging_leaves_the_raw_patch_alone() -> None:
    raw = patch_of(edit(value="0.3"), share(3, 0.6))
    check_patch(CONFIG, raw)
    assert raw == patch_of(edit(value="0.3"), share(3, 0.6))


@st.composite
def configs(draw: st.DrawFn) -> GeneratorConfig:
    weights = draw(st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any))
    sizes = {
        str(size): {
            "data_ratio": weight / sum(weights),
            "hole_ratio": draw(st.integers(0, 10)) / 20,
            "wait_ratio": draw(st.integers(0, 20)) / 20,
        }
        for size, weight in enumerate(weights, start=3)
    }
    return GeneratorConfig.parse({"num_agents": 2, "sizes": sizes}, "drawn")


@st.composite
def edits_of(draw: st.DrawFn, config: GeneratorConfig, knobs: tuple[str, ...] = KNOBS) -> list[dict[str, Any]]:
    paths = [f"/sizes/{bucket}/{knob}" for bucket in config.sizes for knob in knobs]
    chosen = draw(st.lists(st.sampled_from(paths), unique=True, min_size=1, max_size=5))
    return [edit(path, draw(st.integers(0, 100)) / 100 * KNOB_BOUNDS[path.rpartition("/")[2]][1]) for path in chosen]


@FEW
@given(st.data())
def test_an_accepted_patch_keeps_its_values_sums_to_1_and_tells_every_change(data: st.DataObject) -> None:
    config = data.draw(configs())
    before = config.to_json()
    edits = data.draw(edits_of(config))
    check = check_patch(config, patch_of(*edits))
    assert config.to_json() == before
    assert check.accepted is not bool(check.errors)
    if not check.accepted:
        assert (check.config, check.diff) == (config, ())
        return
    assert sum(ratios(check.config)) == pytest.approx(1, abs=1e-9)
    after = {change.path: change.after for change in diff_configs(config, check.config)}
    assert {change.path: change.after for change in check.diff} == after
    assert all(change.before != change.after for change in check.diff)
    scaled = any(warning.code == "scaled" for warning in check.warnings)
    for asked in edits:
        _, _, bucket, knob = asked["path"].split("/")
        if not (scaled and knob == "data_ratio"):
            assert getattr(check.config.sizes[bucket], knob) == asked["value"]
    edited = {asked["path"] for asked in edits}
    if not any(path.endswith("data_ratio") for path in edited):
        assert set(after) <= edited


@FEW
@given(st.data())
def test_undoing_the_diff_restores_the_config(data: st.DataObject) -> None:
    config = data.draw(configs())
    check = check_patch(config, patch_of(*data.draw(edits_of(config, ("hole_ratio", "wait_ratio")))))
    if check.accepted:
        undo = patch_of(*(edit(change.path, change.before) for change in check.diff))
        assert check_patch(check.config, undo).config == config


def test_a_patch_file_is_read_with_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "patch.json"
    path.write_text(dump_json(patch_of(edit(value="0.3"))), encoding="utf-8")
    assert read_patch(path) == Patch.parse(patch_of(edit(value=0.3)), "patch")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"summary": "a", "summary": "b", "edits": []}', "the key 'summary' is repeated"),
        (dump_json(patch_of(edit())).replace("0.5", "NaN"), "NaN is not a JSON number"),
        (dump_json(patch_of(edit())).replace("0.5", "1e999"), "the number 1e999 is too large"),
        (dump_json(patch_of(edit(value=7))), "/edits/0/value: 7 is greater than the maximum of 1"),
        ("[]", "/: [] is not of type 'object'"),
        ("", "not valid JSON"),
    ],
)
def test_a_bad_patch_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "patch.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read_patch(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
