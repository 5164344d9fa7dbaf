"""One power cut, from the moment that is drawn to the verdict on what is left."""
