"""Named recipes: a method is a policy put together from a surrogate and a way to select."""

from bmbo.acquisition.alternating import Alternating
from bmbo.policies import Bayes, Random
from bmbo.runtime import Device
from bmbo.surrogates.darn import Darn, Preset


def bmbo_darn(preset: Preset = "default", *, num_startup: int | None = None, device: Device = "auto") -> Bayes:
    """The paper's method.

    `preset="paper"` is the paper to the letter: its network, its HMC, its noise-free information from 100 draws, ten
    random starts a level. `preset="default"` is what was measured to be best; docs/design.md says how they differ.
    """
    surrogate = Darn.preset(preset)
    if preset == "paper":
        select = Alternating(observation_noise=False, subtract_chance=False)
        return Bayes(surrogate, select, num_startup=num_startup or 10, improve=0.0, anchor_growth=None, device=device)
    return Bayes(surrogate, Alternating(), num_startup=num_startup or 5, device=device)


def random_search() -> Random:
    """Uniform random search at the top fidelity."""
    return Random()
