"""The explorer: a page in the browser with sliders for parameters, and curves that follow them."""
