"""ManifestWork on the managed cluster: applies its objects, corrects and reports them, and removes them."""
