# %% [markdown]
# # An attack: it succeeds on two broken releases and fails on ours
#
# Somebody wants to know whether one person is in a count, and sees nothing but what is published. Two popular ways to
# add noise give the answer away.
#
# **Broken 1: noise without an account.** Every hour the same count is published with fresh noise of ε = 1, which looks
# private. After a day the attacker takes the mean, and the noise is gone. veilstream divides ε = 1 over the day, and
# the accountant refuses a release that does not fit.

# %%
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import veilstream as vs

hours, trials = 24, 4_000
draw = np.random.default_rng(1)
guarantee = vs.Guarantee(1, w=hours)


def broken(count: int) -> NDArray[np.float64]:
    """The mean that an attacker computes from a day of releases, each with noise Lap(1)."""
    return np.asarray(np.mean(count + draw.laplace(0, 1, (trials, hours)), axis=1))


def ours(count: int) -> NDArray[np.float64]:
    """The same from veilstream's releases under one budget for the day."""
    day = np.full((hours, 1), count)
    releases = np.asarray(vs.simulate_many(vs.Uniform(), guarantee, day, seed=count, runs=trials))
    return np.asarray(np.mean(releases[:, :, 0], axis=1))


def advantage(absent: NDArray[np.float64], present: NDArray[np.float64]) -> float:
    """How often the best threshold guesses right, if both are as likely."""
    levels = np.quantile(np.r_[absent, present], np.linspace(0, 1, 400))
    return max(float(((absent < level).mean() + (present >= level).mean()) / 2) for level in levels)


pairs = {"fresh noise every hour": (broken(100), broken(101)), "veilstream, one budget": (ours(100), ours(101))}

# %% [markdown]
# **Broken 2: noise in floating point.** `numpy.random.laplace` draws reals of 53 bits. Added to a count of 1, small
# noise loses its last bits; added to 0, it keeps them. One look at the last bits tells which it was. veilstream draws
# whole numbers exactly, and there are no last bits.


# %%
def last_bits_gone(values: np.ndarray) -> np.ndarray:
    """Among values below 1/4 in size, which are whole multiples of 2⁻⁵³."""
    small = values[(np.abs(values) > 2**-8) & (np.abs(values) < 1 / 4)]
    return np.asarray(small * 2.0**53 % 1 == 0)


rates = [last_bits_gone(count + draw.laplace(0, 1, 200_000)).mean() for count in (0, 1)]
print(f"floating point: last bits gone in {rates[0]:.0%} of small values at count 0, in {rates[1]:.0%} at count 1")
exact = vs.noise.SecureNoise().laplace(scale=1, size=200_000)
print(f"veilstream: values are whole numbers: {bool((exact == np.rint(exact)).all())}")

# %%
figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for axes, (title, (absent, present)) in zip(panels, pairs.items(), strict=False):
    right = advantage(absent, present)
    print(f"{title}: the attacker guesses right in {right:.0%} of the cases; e/(1+e) = 73 % is promised at most")
    low, high = np.quantile(np.r_[absent, present], [0.001, 0.999])
    for values, color, label in ((absent, "#777777", "absent"), (present, "#e65100", "present")):
        axes.hist(values, bins=60, range=(low, high), color=color, alpha=0.55, label=label)
    axes.set(title=f"{title}:\nright in {right:.0%}", xlabel="mean of a day's releases", yticks=[])
panels[0].legend(frameon=False)
panels[2].bar(["count 0", "count 1"], rates, color=["#777777", "#e65100"])
panels[2].set(title="floating point:\nlast bits gone", ylim=(0, 1.1))
figure.savefig("picture.svg")
