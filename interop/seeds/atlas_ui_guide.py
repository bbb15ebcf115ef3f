"""Atlas UI: the commands of its guide."""

import guide
from atlas_ui_stages import CHECKS
from booth import Booth

guide.add_checks(CHECKS, "from-atlas-ui.md", lambda: Booth("atlas-ui", sdk="sdk1"))
