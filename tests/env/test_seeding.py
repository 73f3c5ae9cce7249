"""Random streams by name: the same for the same name, apart for different ones."""

from envwright.env.seeding import derive_seed, random_stream


def test_a_stream_is_its_seed_and_its_key_and_nothing_else() -> None:
    names: list[tuple[str | int, ...]] = [(), ("boards",), ("boards", 0), ("boards", 1), ("boards", "1"), (0, "boards"), ("probe", 0)]
    drawn = {name: [random_stream(7, *name).integers(2**62) for _ in range(2)] for name in names}
    assert all(first == second for first, second in drawn.values())
    assert len({first for first, _ in drawn.values()}) == len(names)
    assert random_stream(8, "boards").integers(2**62) != drawn["boards",][0]


def test_streams_are_the_same_on_every_machine_and_in_every_process() -> None:
    assert derive_seed(0, "boards", 1) == 144827961
    assert 0 <= derive_seed(2**40, "x") < 2**31
