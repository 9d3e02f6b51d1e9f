/** A table of rows, which narrow screens show as cards, and links to its older pages. */
import { Component, type ComponentChildren } from "preact"

export interface Column<Row> {
  readonly title: string
  /** The style of the column: `amount`, `words`, `code`, `outcomes`. */
  readonly kind?: string
  /** Its cells need no title, for example because they have buttons. */
  readonly isUntitled?: boolean
  /** `undefined` if there is nothing to show. */
  readonly cell: (row: Row) => ComponentChildren | undefined
}

interface RowProps<Row> {
  readonly row: Row
  readonly columns: ReadonlyArray<Column<Row>>
  readonly class: string
  /** The first cell is the row's heading. */
  readonly hasHeading: boolean
}

/** It is drawn again only if its row or its columns have changed. */
class TableRow<Row> extends Component<RowProps<Row>> {
  override shouldComponentUpdate(next: RowProps<Row>): boolean {
    const { row, columns } = this.props
    return next.row !== row || next.columns !== columns || next.class !== this.props.class
  }
  render() {
    const { row, columns, hasHeading } = this.props
    return (
      <tr class={this.props.class}>
        {columns.map(({ title, kind = "", isUntitled = false, cell }, index) => {
          if (hasHeading && index === 0) {
            return (
              <th key={title} scope="row">
                {cell(row)}
              </th>
            )
          }
          const shown = cell(row)
          return (
            <td
              key={title}
              {...(!isUntitled && { "data-label": title })}
              class={shown === undefined ? `${kind} blank` : kind}
            >
              {shown ?? "–"}
            </td>
          )
        })}
      </tr>
    )
  }
}

interface TableProps<Row> {
  readonly rows: ReadonlyArray<Row>
  readonly columns: ReadonlyArray<Column<Row>>
  readonly keyOf: (row: Row) => string | number
  readonly classOf?: (row: Row) => string
  readonly hasHeading?: boolean
  readonly isBusy?: boolean
  readonly kind?: string
}

export const Table = <Row,>(props: TableProps<Row>) => {
  const { rows, columns, keyOf, classOf, hasHeading = false, isBusy = false, kind = "" } = props
  return (
    <div class="scroll" aria-busy={isBusy}>
      <table class={`cards ${kind}`}>
        <thead>
          <tr>
            {columns.map(({ title, kind = "", isUntitled = false }) => (
              <th key={title} scope="col" class={kind === "code" ? "" : kind}>
                {isUntitled ? <span class="unseen">{title}</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <TableRow<Row> key={keyOf(row)} {...{ row, columns, hasHeading }} class={classOf?.(row) ?? ""} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** `newest` and `older` are the addresses of those pages, if they exist. */
export const Pager = ({
  newest,
  older,
  children,
}: {
  readonly newest?: string | undefined
  readonly older?: string | undefined
  readonly children: ComponentChildren
}) => (
  <nav class="pages" aria-label="Pages">
    <span class="quiet">{children}</span>
    {newest !== undefined && (
      <a class="button" href={newest}>
        Newest
      </a>
    )}
    {older !== undefined && (
      <a class="button" href={older}>
        Older
      </a>
    )}
  </nav>
)
