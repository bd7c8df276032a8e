"""Pure functions from a data frame to an Altair chart."""

from altair.utils import schemapi

# Altair would check each part of a chart when it is made, which takes as long as making it; tests of charts do that.
schemapi.disable_debug_mode()
