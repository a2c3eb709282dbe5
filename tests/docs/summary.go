package docs

// Folder has the pages of the book, and Summary lists them. It also lists pages elsewhere in the repository.
const (
	Folder  = "docs"
	Summary = Folder + "/SUMMARY.md"
)

// Book is the paths of the book's pages in their order.
func Book(root string) (pages []string, err error) {
	summary, err := Read(root, Summary)
	if err != nil {
		return nil, err
	}
	for _, link := range summary.Links {
		if name, _, local := summary.Resolve(link); local {
			pages = append(pages, name)
		}
	}
	return pages, nil
}
