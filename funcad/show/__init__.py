"""Pictures of programs: text, HTML, SVG."""
