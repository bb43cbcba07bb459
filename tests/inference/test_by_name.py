"""Ways of inference are found by their names."""

from typing import get_args

import pytest

from bmbo.inference import MCLMC, NUTS, SGHMC, AdaptiveHMC, AdjustedMCLMC, DeepEnsemble, Inference, MeanField, PaperHMC
from bmbo.inference.by_name import InferenceName, make_inference

CLASSES = {
    "adjusted_mclmc": AdjustedMCLMC,
    "ensemble": DeepEnsemble,
    "hmc": AdaptiveHMC,
    "mclmc": MCLMC,
    "nuts": NUTS,
    "paper_hmc": PaperHMC,
    "sghmc": SGHMC,
    "variational": MeanField,
}


def test_every_name_is_known():
    assert set(get_args(InferenceName)) == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_name_gives_its_class_with_default_settings(name):
    found = make_inference(name)
    assert found == CLASSES[name]()
    assert isinstance(found, Inference)


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_name_is_refused_with_the_list_of_names():
    with pytest.raises(ValueError, match=r"inference must be one of .*'nuts'.*, got 'gibbs'"):
        make_inference("gibbs")  # pyright: ignore[reportArgumentType]
