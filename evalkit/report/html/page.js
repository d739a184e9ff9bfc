(function(){"use strict";
function value(row,place){var cell=row.cells[place];if(!cell)return"";
var first=cell.firstChild,shown=(first&&first.nodeType===3?first.data:cell.textContent).trim();
var number=parseFloat(shown.replace(/\u2212/g,"-").replace(/,/g,""));
return isNaN(number)?shown.toLowerCase():number;}
document.querySelectorAll("table.sortable").forEach(function(table){
var body=table.tBodies[0],heads=table.tHead.rows[table.tHead.rows.length-1].cells;
Array.prototype.forEach.call(heads,function(head,place){
var button=document.createElement("button");button.className="sort";button.type="button";
button.title="sort by this column";
while(head.firstChild)button.appendChild(head.firstChild);head.appendChild(button);
button.addEventListener("click",function(){
var down=head.getAttribute("aria-sort")==="descending"?1:-1;
Array.prototype.forEach.call(heads,function(each){each.removeAttribute("aria-sort");});
head.setAttribute("aria-sort",down<0?"descending":"ascending");
Array.prototype.slice.call(body.rows).sort(function(left,right){
var a=value(left,place),b=value(right,place);
if(typeof a!==typeof b)return typeof a==="number"?-1:1;
return a<b?-down:a>b?down:0;}).forEach(function(row){body.appendChild(row);});});});
if(body.rows.length>12){var box=document.createElement("input");box.type="search";
box.className="filter";box.placeholder="filter rows";box.setAttribute("aria-label","filter rows");
box.addEventListener("input",function(){var wanted=box.value.toLowerCase();
Array.prototype.forEach.call(body.rows,function(row){
row.hidden=row.textContent.toLowerCase().indexOf(wanted)<0;});});
table.parentNode.parentNode.insertBefore(box,table.parentNode);}});})();
