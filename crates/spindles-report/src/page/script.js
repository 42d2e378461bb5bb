// The page is complete without this: it only offers the embedded records as a file.
(() => {
  const button = document.getElementById("download");
  const data = document.getElementById("data");
  if (!button || !data) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const lines = JSON.parse(data.textContent).map((record) => JSON.stringify(record) + "\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
    link.download = "records.jsonl";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
