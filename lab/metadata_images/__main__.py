"""``python -m lab.metadata_images``, and ``python -m lab.metadata_images FOLDER…`` for other metadata logs.

The latter prints their images, a JSON object on each line.
"""

import sys
from pathlib import Path

from lab.metadata_images import make_metadata_images, replay

if len(sys.argv) > 1:
    sys.stdout.write(replay([Path(name) for name in sys.argv[1:]]))
else:
    make_metadata_images()
