// Slides of 1280 × 720; the corner names the section; `S` opens the lecturer's view.
Reveal.initialize({
  width: 1280, height: 720, margin: 0.02, center: false, hash: true, slideNumber: "c/t",
  transition: "none", plugins: [RevealNotes], pdfSeparateFragments: false,
});

// A few words alone may be larger.
for (const slide of document.querySelectorAll("section:not(:has(section))")) {
  const rich = slide.querySelector("pre, table, img, .jupyter-widgets, .question, h1");
  slide.classList.toggle("sparse", !rich && slide.textContent.length < 420);
}

function showWhere() {
  const here = Reveal.getCurrentSlide();
  const section = here.parentElement.closest("section") ?? here;
  const heading = section.querySelector("h2");
  const where = document.getElementById("where");
  where.textContent = heading && !here.contains(heading) ? heading.firstChild.textContent : "";
}

Reveal.on("ready", showWhere);
Reveal.on("slidechanged", showWhere);
