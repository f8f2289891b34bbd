"""Specifications check themselves, and actions are not trusted."""

import numpy as np
import pytest

from echelon.envs.vector import BoxActions, DiscreteActions, EnvSpec, check_actions

DISCRETE = EnvSpec("toy", ("a", "b"), (3, 5), 4, DiscreteActions((3, 5)))
BOX = EnvSpec("toy", ("a", "b"), (3, 5), 4, BoxActions(((-2.0, 0.0), (0.0,)), ((2.0, 1.0), (3.0,))))


def test_padding_of_differing_agents() -> None:
    assert DISCRETE.obs_dim == 5
    assert DISCRETE.action_shape(7) == (7, 2)
    assert isinstance(DISCRETE.actions, DiscreteActions)
    assert DISCRETE.actions.mask.tolist() == [[True, True, True, False, False], [True] * 5]
    assert BOX.action_shape(7) == (7, 2, 2)
    assert isinstance(BOX.actions, BoxActions)
    assert BOX.actions.dims == (2, 1)
    assert BOX.actions.low_array.tolist() == [[-2.0, 0.0], [0.0, -1.0]]
    assert BOX.actions.high_array.tolist() == [[2.0, 1.0], [3.0, 1.0]]


def test_continuous_actions_are_clipped_to_each_agents_bounds() -> None:
    wild = np.array([[[9.0, -9.0], [-1.0, np.inf]]])
    assert check_actions(BOX, 1, wild).tolist() == [[[2.0, 0.0], [0.0, 1.0]]]
    assert wild[0, 0, 0] == 9.0


def test_nan_is_an_error_that_names_the_agent() -> None:
    with pytest.raises(ValueError, match="action of b in world 1 is NaN"):
        check_actions(BOX, 2, np.array([[[0, 0], [0, 0]], [[0, 0], [np.nan, 0]]]))


def test_nan_of_an_agent_that_is_not_there_does_not_matter() -> None:
    actions = np.array([[[0.5, 0.5], [np.nan, np.nan]]])
    assert check_actions(BOX, 1, actions, np.array([[True, False]])).tolist() == [[[0.5, 0.5], [0.0, 0.0]]]


@pytest.mark.parametrize("action", [3, -1])
def test_an_action_the_agent_does_not_have_is_an_error(action: int) -> None:
    with pytest.raises(ValueError, match=f"action {action} of a in world 0; it has actions 0..2"):
        check_actions(DISCRETE, 1, np.array([[action, 4]]))


def test_shape_and_type_must_fit() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 1\); they must have shape \(1, 2\)"):
        check_actions(DISCRETE, 1, np.array([[0], [1]]))
    with pytest.raises(ValueError, match="must be integers"):
        check_actions(DISCRETE, 1, np.array([[0.0, 1.0]]))


def test_specifications_check_themselves() -> None:
    with pytest.raises(ValueError, match="finite"):
        BoxActions(((-np.inf,),), ((1.0,),))
    with pytest.raises(ValueError, match="low < high"):
        BoxActions(((1.0,),), ((1.0,),))
    with pytest.raises(ValueError, match="at least one action"):
        DiscreteActions((2, 0))
    with pytest.raises(ValueError, match="same agents"):
        EnvSpec("toy", ("a",), (3, 3), 4, DiscreteActions((2,)))
