"""Pictures of boards and plans: terminal text, PNG, SVG and animated GIF."""
