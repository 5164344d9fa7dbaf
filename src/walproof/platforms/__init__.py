"""How a platform wants settings written, and which it refuses: lines to paste and lines that undo them."""
