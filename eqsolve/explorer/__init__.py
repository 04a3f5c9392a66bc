"""The explorer: a page in the browser whose sliders set a model's parameters, and whose curves follow them."""
