"""The description of the package: the README, with links that also lead somewhere from outside of the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\]\()(?![a-z]+:|#)")
"""The beginning of a link to a file of the repository, up to the file's name."""


class Description(MetadataHookInterface):
    """Without a `Repository` among the project's URLs, links stay as they are."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description."""
        text = Path(self.root, "README.md").read_text("utf-8")
        if home := metadata.get("urls", {}).get("Repository"):
            text = RELATIVE.sub(lambda link: f"{link[0]}{home}/{'raw' if link['picture'] else 'blob'}/HEAD/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
