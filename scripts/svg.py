"""An SVG that is readable on light and dark pages, put together from shapes and words."""

BLUE, GREEN, RED, GREY = "#3b82c4", "#3a9d5d", "#d1603d", "#8a8f98"


class Picture:
    def __init__(self, title, width, height):
        self.title, self.width, self.height = title, width, height
        self.parts = []

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, words, anchor="middle", colour="currentColor", size=13):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        font = "" if size == 13 else f' font-size="{size}"'
        fill = "" if colour == "currentColor" else f' fill="{colour}"'
        self.add(f'<text x="{x}" y="{y}" text-anchor="{anchor}"{font}{fill}>{words}</text>')

    def bar(self, x, y, width, height, colour, words=None, dashed=False):
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.add(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{colour}" '
            f'fill-opacity="0.18" stroke="{colour}"{dashes}/>'
        )
        if words:
            self.text(x + width / 2, y + height / 2 + 4.5, words)

    def circle(self, x, y, radius, colour, words):
        self.add(
            f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}" fill-opacity="0.18" '
            f'stroke="{colour}"/>'
        )
        self.text(x, y + 4.5, words)

    def line(self, x1, y1, x2, y2, colour=GREY, dashed=False):
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.add(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"{dashes}/>'
        )

    def arrow(self, x1, y1, x2, y2, colour="currentColor", dashed=False):
        self.line(x1, y1, x2, y2, colour, dashed)
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        corners = [
            (x2, y2),
            (x2 - 9 * ux + 4 * uy, y2 - 9 * uy - 4 * ux),
            (x2 - 9 * ux - 4 * uy, y2 - 9 * uy + 4 * ux),
        ]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self.add(f'<polygon points="{points}" fill="{colour}"/>')

    def svg(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" style="max-width:100%" font-family="sans-serif" font-size="13" fill="currentColor" stroke-width="1.5" role="img" '
            f'aria-label="{self.title}">'
        )
        # The colours are those of an image; inside a page the picture is not the root.
        style = (
            "<style>svg:root { color: #1f2328 } "
            "@media (prefers-color-scheme: dark) { svg:root { color: #e6edf3 } }</style>"
        )
        lines = [head, f"<title>{self.title}</title>", style, *self.parts, "</svg>"]
        return "\n".join(lines) + "\n"
