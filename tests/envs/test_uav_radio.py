"""Radio formulae against numbers worked out by hand, and the array versions against plain ones."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws import examples

from echelon.envs.uav import radio
from echelon.envs.uav.config import Channel


def dbm(milliwatts: float) -> float:
    return 10.0 * math.log10(milliwatts)


@pytest.mark.parametrize(
    ("channel", "distance", "loss"),
    [
        ("free_space", 100.0, 80.05),  # 20·2 + 40.05
        ("free_space", 1000.0, 100.05),
        ("urban", 1000.0, 128.1),
        ("urban", 100.0, 90.5),  # 128.1 − 37.6
        ("suburban", 1000.0, 120.0),
        ("suburban", 100.0, 85.0),
    ],
)
def test_path_loss_of_the_log_distance_models(channel: Channel, distance: float, loss: float) -> None:
    power = radio.log_distance_power(20.0, channel, np.array([distance**2]))
    assert dbm(power[0]) == pytest.approx(20.0 - loss, abs=1e-9)


def test_path_loss_3gpp_by_hand() -> None:
    # At 5 degrees p = 1/6. d = 100 m, 20·log10(2.4) = 7.6042: LoS 28 + 44 + 7.6042, NLoS 22.7 + 82 + 7.6042.
    at = np.array([100.0]), np.array([5.0])
    plain = radio.path_loss_3gpp(*at, np.zeros(1), np.zeros(1))
    assert plain[0] == pytest.approx(79.6042 / 6 + 112.3042 * 5 / 6, abs=1e-3)
    shadowed = radio.path_loss_3gpp(*at, np.array([1.0]), np.array([-0.5]))
    assert shadowed[0] - plain[0] == pytest.approx(4.0 / 6 - 0.5 * 8.0 * 5 / 6, abs=1e-9)
    overhead = radio.path_loss_3gpp(np.array([100.0]), np.array([90.0]), np.zeros(1), np.zeros(1))
    assert overhead[0] == pytest.approx(79.6042, abs=1e-3)


def test_sinr_by_hand() -> None:
    power = np.array([[[4.0, 8.0], [1.0, 0.5]]])
    expected = [[4.0 / 2.0, 8.0 / 1.5], [1.0 / 5.0, 0.5 / 9.0]]
    np.testing.assert_allclose(radio.sinr(power, noise=1.0)[0], expected)


def test_strongest_uav_serves_its_best_users_up_to_capacity() -> None:
    # Users 0..3 hear UAV 0 with SINR 3, 9, 5, 0.9; user 4 hears UAV 1 with 6.
    power = np.array([[[3.0, 9.0, 5.0, 0.9, 0.0], [0.0, 0.0, 0.0, 0.0, 6.0]]])
    found = radio.associate_strongest(power, noise=1.0, min_sinr=1.0, capacity=2)
    assert found.server.tolist() == [[-1, 0, 0, -1, 1]]
    assert found.sinr[0, [1, 2, 4]].tolist() == [9.0, 5.0, 6.0]


def test_greedy_gives_a_full_uavs_user_to_its_second_choice() -> None:
    ratio = np.array([[[0.9, 0.8, 0.7], [0.3, 0.6, 0.1]]])  # UAV 0 has room for one: user 0, the best pair
    found = radio.associate_greedy(ratio, min_sinr=0.2, capacity=1)
    assert found.server.tolist() == [[0, 1, -1]]
    assert found.sinr[0, :2].tolist() == [0.9, 0.6]


def test_greedy_stops_at_the_threshold() -> None:
    found = radio.associate_greedy(np.array([[[0.5, 0.19]]]), min_sinr=0.2, capacity=10)
    assert found.server.tolist() == [[0, -1]]


def plain_greedy(ratio: np.ndarray, min_sinr: float, capacity: int) -> list[int]:
    uavs, users = ratio.shape
    server, room = [-1] * users, [capacity] * uavs
    for i, j in sorted(itertools.product(range(uavs), range(users)), key=lambda p: (-ratio[p], p)):
        if ratio[i, j] >= min_sinr and server[j] < 0 and room[i] > 0:
            server[j] = i
            room[i] -= 1
    return server


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.floats(0.05, 3.0))
@examples(60)
def test_greedy_equals_the_plain_loop_and_the_fast_path(seed: int, n: int, m: int, capacity: int, low: float) -> None:
    power = np.random.default_rng(seed).lognormal(0.0, 2.0, (3, n, m))
    ratio = radio.sinr(power, 0.1)
    greedy = radio.associate_greedy(ratio, low, capacity)
    assert greedy.server.tolist() == [plain_greedy(world, low, capacity) for world in ratio]
    fast = radio.associate_strongest(power, 0.1, max(low, 1.0), capacity)
    slow = radio.associate_greedy(ratio, max(low, 1.0), capacity)
    assert fast.server.tolist() == slow.server.tolist()
    np.testing.assert_allclose(fast.sinr[fast.served], slow.sinr[slow.served], rtol=1e-9)


def test_associate_takes_the_general_path_below_0_db() -> None:
    power = np.array([[[1.0], [0.9]]])  # SINR .5 at best
    assert radio.associate(power, 1.1, min_sinr=0.4, capacity=1).server.tolist() == [[0]]
    assert radio.associate(power, 1.1, min_sinr=1.0, capacity=1).server.tolist() == [[-1]]


def chain(*rates: float) -> np.ndarray:
    """Links 0–1, 1–2, …"""
    n = len(rates) + 1
    links = np.zeros((1, n, n))
    for i, rate in enumerate(rates):
        links[0, i, i + 1] = links[0, i + 1, i] = rate
    return links


def test_routes_along_a_chain() -> None:
    ground = np.array([[[100.0], [0.0], [0.0], [0.0]]])
    three = radio.find_routes(ground, chain(50.0, 70.0, 20.0), max_hops=3)
    assert three.hops.tolist() == [[1, 2, 3, 0]]
    assert three.rate.tolist() == [[100.0, 50.0, 50.0, 0.0]]
    assert three.next_hop.tolist() == [[-1, 0, 1, -1]]
    four = radio.find_routes(ground, chain(50.0, 70.0, 20.0), max_hops=4)
    assert four.hops.tolist() == [[1, 2, 3, 4]]
    assert four.rate[0, 3] == 20.0


def test_a_short_slow_route_beats_a_long_fast_one_and_the_widest_wins_among_equals() -> None:
    ground = np.array([[[30.0], [80.0], [5.0], [0.0]]])
    links = np.zeros((1, 4, 4))
    links[0, 3, 0] = links[0, 3, 1] = links[0, 2, 1] = 60.0
    routes = radio.find_routes(ground, links, max_hops=3)
    assert routes.hops.tolist() == [[1, 1, 1, 2]]
    assert routes.rate.tolist() == [[30.0, 80.0, 5.0, 60.0]]
    assert routes.next_hop[0, 3] == 1


@given(st.integers(0, 2**32), st.integers(3, 5))
@examples(60)
def test_routes_equal_a_search_of_all_paths(seed: int, max_hops: int) -> None:
    rng = np.random.default_rng(seed)
    n = 5
    ground = (rng.integers(0, 4, (1, n, 2)) * (rng.random((1, n, 1)) < 0.3)).astype(np.float64)
    links = np.triu(rng.integers(1, 9, (1, n, n)) * (rng.random((1, n, n)) < 0.4), 1).astype(float)
    links += links.transpose(0, 2, 1)
    routes = radio.find_routes(ground, links, max_hops)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        best = (0, 0.0)
        for length in range(1, max_hops + 1):
            paths = ((i, *p) for p in itertools.permutations(others, length - 1))
            rates = [min([links[0, a, b] for a, b in itertools.pairwise(p)] + [ground[0, p[-1]].max()]) for p in paths]
            if rates and max(rates) > 0:
                best = (length, max(rates))
                break
        assert (routes.hops[0, i], routes.rate[0, i]) == best


def test_only_uavs_that_carry_traffic_are_forwarders() -> None:
    ground = np.array([[[100.0], [0.0], [0.0], [0.0]]])
    routes = radio.find_routes(ground, chain(50.0, 50.0, 50.0), max_hops=3)
    everyone = radio.forwarders(routes, np.array([[True] * 4]), 3)
    assert everyone.tolist() == [[True, True, False, False]]  # UAV 3 has no route: nobody carries for it
    last = radio.forwarders(routes, np.array([[False, False, True, False]]), 3)
    assert last.tolist() == [[True, True, False, False]]
    first = radio.forwarders(routes, np.array([[True, False, False, False]]), 3)
    assert not first.any()


def test_link_rate_and_reach() -> None:
    # 30 dBm, 100 m: SNR 30 − 80.05 + 104 = 53.95 dB; 20 MHz · log2(1 + 10^5.395).
    rate = radio.link_rate(np.array([100.0**2]), 30.0, -104.0, 0.0, 20e6)
    assert rate[0] == pytest.approx(20.0 * math.log2(1.0 + 10**5.395))
    to_ground = radio.link_rate(np.array([498.0, 499.0]) ** 2, 30.0, -104.0, 40.0, 20e6)
    between = radio.link_rate(np.array([280.0, 281.0]) ** 2, 20.0, -104.0, 35.0, 20e6)
    assert (to_ground > 0).tolist() == [True, False]
    assert (between > 0).tolist() == [True, False]


def test_ground_stations() -> None:
    assert radio.ground_stations(1, 1000.0, 30.0).tolist() == [[500.0, 500.0, 30.0]]
    corners = radio.ground_stations(4, 1000.0, 30.0)
    assert sorted(map(tuple, corners.tolist())) == [(x, y, 30.0) for x in (0.0, 1000.0) for y in (0.0, 1000.0)]
    grid = radio.ground_stations(7, 900.0, 30.0)
    assert grid.shape == (7, 3)
    assert len(np.unique(grid, axis=0)) == 7
    assert set(grid[:, 0].tolist()) == {150.0, 450.0, 750.0}
