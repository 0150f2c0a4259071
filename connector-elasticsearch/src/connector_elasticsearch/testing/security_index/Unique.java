// SPDX-License-Identifier: Apache-2.0
package connectors;

import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.miscellaneous.RemoveDuplicatesTokenFilter;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/** Each token once at a position. */
@NamedComponent("unique")
public class Unique implements TokenFilterFactory {
    @Override
    public TokenStream create(TokenStream input) {
        return new RemoveDuplicatesTokenFilter(input);
    }
}
