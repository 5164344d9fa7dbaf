"""A power cut, from the draw of its moment to the verdict on what is left."""
