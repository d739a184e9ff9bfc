"""What a share of the users leaves behind: merged with that of others, written and read back."""

from evalkit.planning.partials._codec import codec_of
from evalkit.planning.partials._container import is_partial, pieces_of_file, read_body, read_header
from evalkit.planning.partials._header import MOST_SHARES, Header, definitions_of, missing_warning
from evalkit.planning.partials._partial import Partial, PartialFiles, fitting, open_partials
