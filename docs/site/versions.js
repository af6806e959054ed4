// SPDX-License-Identifier: Apache-2.0
// Fills a page's choice of versions. `versions` (above, made by versions.py): [{name, pages}], newest release first.
// A page that another version does not have leads to that version's first page.
(() => {
  const place = document.getElementById("versions");
  const { root, version, page } = place.dataset;
  const address = (other) => `${root}${other.name}/${other.pages.includes(page) ? page : "index.html"}`;
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", "version");
  for (const other of versions) {
    choice.append(new Option(other.name, address(other), false, other.name === version));
  }
  choice.addEventListener("change", () => location.assign(choice.value));
  place.append(choice);
  const newest = versions[0];
  if (version !== newest.name) {
    const link = document.createElement("a");
    link.href = address(newest);
    link.textContent = newest.name;
    const note = document.createElement("p");
    note.append(version === "dev" ? "not released; newest release: " : "an old release; newest: ", link);
    place.append(note);
  }
})();
