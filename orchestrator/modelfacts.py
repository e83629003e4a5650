"""What models' servers say of them, asked once for each model of a run."""

from __future__ import annotations

from contextlib import suppress

import anyio

from orchestrator.errors import ModelError, Overloaded
from orchestrator.model import Model, ModelFacts

DESCRIBE_SECONDS = 5.0
DESCRIBE_AGAIN_SECONDS = 0.25


class KnownModels:
    """The facts of the models of one run."""

    def __init__(self, model: Model, first: str, facts: ModelFacts) -> None:
        self._model = model
        self._facts = {first: facts}
        self._asking = anyio.Lock()

    async def facts_of(self, name: str) -> ModelFacts:
        """What the model's server says of it."""
        async with self._asking:
            if name not in self._facts:
                self._facts[name] = await described(self._model, name)
        return self._facts[name]


async def described(model: Model, name: str) -> ModelFacts:
    """What the server says of model ``name``. Silence and errors leave it to the table: a wrong key
    or address is told by the first call."""
    with anyio.move_on_after(DESCRIBE_SECONDS), suppress(ModelError):
        while True:
            try:
                return await model.describe(name)
            except Overloaded:  # a local server that is still loading its model
                await anyio.sleep(DESCRIBE_AGAIN_SECONDS)
    return ModelFacts()
