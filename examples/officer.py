# %% [markdown]
# # The privacy officer's report: one budget, every release
#
# Three departments publish about the same residents. The officer wants one sentence about a person, a picture of every
# window under the cap, and proof that the next release is refused when it does not fit.
#
# A *population* is one promise about all streams that draw on it: whatever we publish, what one resident did within any
# seven days costs at most ε = 2.

# %%
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import veilstream as vs

draw = np.random.default_rng(3)
residents = vs.Population("residents", epsilon=2, window="7d")
ledger = vs.Ledger.open("city.db")
days = vs.Calendar("2024-09-02", "2024-12-31", "1d")
streams: dict[str, vs.Publisher[Any]] = {
    "libraries": vs.Publisher(4, vs.Guarantee("1/2", w=7), vs.Uniform(), ledger, stream="libraries", calendar=days,
                              population=residents, draw="reserved"),
    "clinics": vs.Publisher(3, vs.Guarantee("3/4", w=7), vs.BudgetAbsorption(), ledger, stream="clinics", calendar=days,
                            population=residents, draw="reserved"),
    "markets": vs.Publisher(2, vs.Guarantee("1/5", w=2), vs.Uniform(), ledger, stream="markets", calendar=days,
                            population=residents, draw="shared"),
}  # fmt: skip
for day in range(28):
    for name, publisher in streams.items():
        publisher.feed(draw.poisson(400 if name == "clinics" else 250, publisher.bins), t=day)

# %% [markdown]
# The account adds up what every window of seven days was charged by everybody. A further stream that would take a
# window over the cap is refused before anything is drawn.

# %%
account = ledger.populations.account("residents")
drawn = account.profile().peak()
fullest = account.reserved + drawn
print(f"reserved {account.reserved.pure}, drawn from the pool {drawn.pure}: at most {fullest.pure} of 2")
try:
    vs.Publisher(5, vs.Guarantee(1, w=7), vs.Uniform(), ledger, stream="schools", calendar=days, population=residents,
                 draw="reserved")  # fmt: skip
except vs.VeilstreamError as refused:
    print(f"refused: {refused}")

# %%
spent = {name: np.array([float(release.spent) for release in ledger.releases(name)]) for name in streams}
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
below = np.zeros(28)
for (name, costs), color in zip(spent.items(), ("#3f51b5", "#e65100", "#2e7d32"), strict=True):
    window = np.convolve(costs, np.ones(7))[:28]
    axes.bar(range(28), window, bottom=below, color=color, width=0.9, label=name)
    below += window
axes.axhline(2, color="#c62828", linewidth=1.5, label="cap of the population")
axes.set(xlabel="window of seven days ending on day", ylabel="ε spent", title="What one resident pays at most")
axes.legend(frameon=False, ncols=4, loc="upper left")
axes.set_ylim(0, 2.6)
figure.savefig("picture.svg")
ledger.close()
