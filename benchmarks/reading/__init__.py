"""Parts on a made warehouse of any size: what questions and pages take."""
