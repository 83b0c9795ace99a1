# %% [markdown]
# # A live page: rows come in over HTTP, releases go out by the clock
#
# A server takes batches of rows, closes each step by the public clock, and shows releases to readers. Here it
# runs for a few seconds in this process.
#
# `veilstream serve --config serve.toml` is the same from the command line; the page is at `/`. This example drives the
# part below the HTTP interface, a live stream with a clock that the caller moves, so that it ends after a moment.

# %%
import matplotlib.pyplot as plt
import numpy as np

import veilstream as vs

draw = np.random.default_rng(5)
harbour = vs.StreamDefinition(
    "harbour",
    title="People at the harbour",
    user="id",
    time="ts",
    domain={"place": ["quay", "hall"]},
    start="2024-06-01",
    every="1h",
    epsilon="1",
    window=12,
    mechanism="uniform",
    clock="manual",
)

# %% [markdown]
# Batches carry an id, so a client that is not sure whether one arrived sends it again: it counts once. Rows that come
# after the end of their step are counted for the operator and never published.

# %%
with vs.open_stream("harbour.db", "harbour", harbour) as stream:
    truth: list[int] = []
    answers: list[str] = []
    for hour in range(36):
        people = int(300 + 200 * np.sin(hour / 24 * 2 * np.pi))
        places = ["quay" if near else "hall" for near in draw.random(people) < 0.7]
        batch = {
            "id": draw.choice(5_000, people, replace=False),
            "ts": [
                f"2024-06-{1 + hour // 24:02d}T{hour % 24:02d}:{minute:02d}" for minute in draw.integers(0, 60, people)
            ],
            "place": places,
        }
        answers = [stream.add(batch, batch_id=f"hour {hour}") for _ in range(2)]
        truth.append(places.count("quay"))
    print("sent twice:", answers)
    releases = stream.close_until("2024-06-02T12:00")
print(f"{len(releases)} steps closed, each spent {releases[0].spent}")

# %%
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
quay = np.array([release.values[0] for release in releases])
low, high = np.array([[bound[0] for bound in release.interval(0.95)] for release in releases]).T
axes.fill_between(range(36), low, high, step="mid", color="#3f51b5", alpha=0.2, linewidth=0, label="95 % of the noise")
axes.step(range(36), quay, where="mid", color="#3f51b5", label="published")
axes.plot(truth, color="#777777", linestyle="--", linewidth=1, label="exact (generated data)")
axes.set(xlabel="hour", ylabel="people at the quay", title="Closed by the clock, ε = 1 for any twelve hours")
axes.legend(frameon=False)
figure.savefig("picture.svg")
